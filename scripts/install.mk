# SPDX-License-Identifier: GPL-2.0
# "make install" and "make uninstall"; Documentation/networking/mpa/install.rst

.PHONY: install install-module install-headers install-pages install-tools install-command \
	install-python install-wire uninstall command

linux_headers := include/uapi/linux/mpa.h include/uapi/linux/mpa_netlink.h \
		 include/uapi/linux/tuf.h
pages := $(patsubst Documentation/man/%.rst,%,$(wildcard Documentation/man/*.7.rst))
completion := $(wildcard tools/mpa/completion.bash)
python := $(wildcard python/mpa/*.py python/mpa/py.typed)
# The judge and its modules, without its tests.
wire := tools/wire/judge tools/wire/annotate \
	$(filter-out tools/wire/selftest% tools/wire/synth_%,$(wildcard tools/wire/*.py))
wire_commands := judge annotate
conform := tools/conform/conform \
	$(filter-out tools/conform/selftest% tools/conform/end%,$(wildcard tools/conform/*.py))

bin_dir = $(DESTDIR)$(PREFIX)/bin
man_dir = $(DESTDIR)$(PREFIX)/share/man/man1
man7_dir = $(DESTDIR)$(PREFIX)/share/man/man7
completion_dir = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
share_dir = $(DESTDIR)$(PREFIX)/share/mpa
wire_dir = $(share_dir)/wire
conform_dir = $(share_dir)/conform
include_dir = $(DESTDIR)$(PREFIX)/include
headers_dir = $(include_dir)/linux
# Found by pkg-config wherever libraries are
pkgconfig_dir = $(DESTDIR)$(PREFIX)/share/pkgconfig
# For other kernel modules: include/net/mpa.h, and what that includes.
kernel_include = $(DESTDIR)$(PREFIX)/src/mpa/include

# The first folder below PREFIX that is in Python's path.
PYTHON_DIR ?= $(shell python3 -c 'import site, sys; prefix = sys.argv[1]; \
	print(next((d for d in site.getsitepackages() if d.startswith(prefix + "/lib")), \
		   prefix + "/lib/python3/dist-packages"))' $(PREFIX) 2>/dev/null)
python_dir = $(DESTDIR)$(or $(PYTHON_DIR),$(PREFIX)/lib/python3/dist-packages)

install: install-module install-headers install-tools install-pages

install-module: module
	$(kbuild) $(kbuild_args) CONFIG_MODULE_SIG_ALL= \
		INSTALL_MOD_PATH=$(INSTALL_MOD_PATH) modules_install
	$(if $(INSTALL_MOD_PATH),,depmod $(release))

install-headers:
	install -d $(headers_dir) $(kernel_include)/net $(kernel_include)/uapi/linux
	install -m 644 $(linux_headers) $(headers_dir)
	install -m 644 libmpa/mpa_socket.h $(include_dir)
	install -d $(pkgconfig_dir)
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|'"$$(scripts/version)"'|' libmpa/mpa.pc.in \
		>$(pkgconfig_dir)/mpa.pc
	install -m 644 include/net/mpa.h $(kernel_include)/net
	install -m 644 include/uapi/linux/mpa.h $(kernel_include)/uapi/linux

# mpa(7) and tuf(7), for programmers
install-pages: $(addprefix $(TOOLS)/,$(pages))
	install -D -m 644 -t $(man7_dir) $^

install-tools: tools install-command install-python install-wire

# The results of "make tools".
install-command:
	install -d $(bin_dir)
	install -m 755 $(TOOLS)/mpa $(bin_dir)
	for page in $(TOOLS)/man/*.1; do \
		test ! -e $$page || install -D -m 644 -t $(man_dir) $$page || exit; \
	done
	$(if $(completion),install -D -m 644 $(completion) $(completion_dir)/mpa)
	install -D -m 644 -t $(share_dir) tools/wire/mpa.lua

install-python:
	$(if $(python),install -D -m 644 -t $(python_dir)/mpa $(python))

# mpa-judge, mpa-annotate, and mpa-conform, which parses octets with the same
# modules
install-wire: $(TOOLS)/mpa-judge.1 $(TOOLS)/mpa-conform.1
	install -d $(bin_dir) $(wire_dir) $(conform_dir) $(man_dir)
	install -m 644 $(filter %.py,$(conform)) $(conform_dir)
	install -m 755 $(filter-out %.py,$(conform)) $(conform_dir)
	ln -sf ../share/mpa/conform/conform $(bin_dir)/mpa-conform
	install -m 644 $(filter %.py,$(wire)) $(wire_dir)
	install -m 755 $(filter-out %.py,$(wire)) $(wire_dir)
	install -m 644 $^ $(man_dir)
	ln -sf mpa-judge.1 $(man_dir)/mpa-annotate.1
	for name in $(wire_commands); do \
		ln -sf ../share/mpa/wire/$$name $(bin_dir)/mpa-$$name || exit; \
	done

$(TOOLS)/mpa-judge.1: tools/wire/mpa-judge.rst
$(TOOLS)/mpa-conform.1: tools/conform/mpa-conform.rst
$(TOOLS)/%.7: Documentation/man/%.7.rst
	mkdir -p $(@D)
	rst2man --strict $< $@.new
	mv $@.new $@

$(TOOLS)/mpa-judge.1 $(TOOLS)/mpa-conform.1:
	mkdir -p $(@D)
	rst2man --strict $< $@.new
	mv $@.new $@

# Folders that others may use are removed only if they are empty.
uninstall:
	rm -f $(foreach dir,extra updates,$(wildcard $(placed)/$(dir)/mpa.ko*)) \
	      $(addprefix $(headers_dir)/,$(notdir $(linux_headers))) \
	      $(include_dir)/mpa_socket.h $(pkgconfig_dir)/mpa.pc \
	      $(share_dir)/mpa.lua $(addprefix $(wire_dir)/,$(notdir $(wire))) \
	      $(addprefix $(conform_dir)/,$(notdir $(conform))) \
	      $(addprefix $(bin_dir)/mpa-,$(wire_commands) conform) $(bin_dir)/mpa $(man_dir)/mpa.1 $(man_dir)/mpa-*.1 \
	      $(addprefix $(man7_dir)/,$(pages)) $(completion_dir)/mpa \
	      $(addprefix $(python_dir)/mpa/,$(notdir $(python))) \
	      $(patsubst python/mpa/%.py,$(python_dir)/mpa/__pycache__/%.*.pyc,$(filter %.py,$(python))) \
	      $(kernel_include)/net/mpa.h $(kernel_include)/uapi/linux/mpa.h
	for dir in $(pkgconfig_dir) $(man7_dir) $(wire_dir) $(conform_dir) $(share_dir) $(placed)/extra $(placed)/updates $(headers_dir) \
		   $(python_dir)/mpa/__pycache__ $(python_dir)/mpa \
		   $(addprefix $(kernel_include),/net /uapi/linux /uapi /) \
		   $(dir $(kernel_include)); do \
		test ! -d $$dir || rmdir --ignore-fail-on-non-empty $$dir || exit; \
	done
	$(if $(INSTALL_MOD_PATH),,depmod $(release))

command:
	@$(MAKE) -C tools/mpa OUTPUT=$(TOOLS)
