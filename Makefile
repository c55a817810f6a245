# SPDX-License-Identifier: GPL-2.0
# Building outside a kernel tree. What the kernel's own build system reads is
# in Kbuild.

# Where kbuild comes from, for the kernel that the module is for. "make" builds
# for the running kernel; "make module KERNEL=6.1" for one of the test kernels.
RELEASE ?= $(shell uname -r)
KDIR ?= /lib/modules/$(RELEASE)/build
KERNEL ?=

# Where "make install" puts what is not the module, and below what: the module goes
# to lib/modules below INSTALL_MOD_PATH, which is DESTDIR by default.
PREFIX ?= /usr/local
DESTDIR ?=
INSTALL_MOD_PATH ?= $(DESTDIR)

# Where the mpa command is built, with its manual pages.
TOOLS ?= $(CURDIR)/build/tools

MODULE_SOURCES := Kbuild $(wildcard *.c *.h tuf/*.c tuf/*.h) \
		  $(shell find include -name '*.h')

# Objects stay out of the source tree, in a folder for each kernel.
ifeq ($(KERNEL),)
BUILD := build/$(notdir $(patsubst %/build,%,$(KDIR)))
kbuild = $(MAKE) -C $(KDIR) M=$(CURDIR)/$(BUILD)
else
BUILD := build/$(KERNEL)
kbuild = selftests/vm/kbuild $(KERNEL) $(CURDIR)/$(BUILD)
endif

.PHONY: all module siw tools html deb rpm dist check check-full test demo shell unit \
	fuzz bench bench-native profile export clean help FORCE

all: module

help:
	@echo 'make                  build mpa.ko for the running kernel'
	@echo 'make KDIR=DIR         build mpa.ko against the kernel headers in DIR'
	@echo 'make tools            build the mpa command: build/tools/mpa; and build/examples'
	@echo 'make html             the documents as HTML: build/html/index.html'
	@echo 'make install          put all in place (as root): the module below /lib/modules, the'
	@echo '                      rest below PREFIX=/usr/local; DESTDIR= goes before both.'
	@echo '                      Parts: install-module install-headers install-tools;'
	@echo '                      make uninstall takes all away'
	@echo 'make siw KERNEL=6.1   siw, the kernel'"'"'s iWARP, on mpa: build/6.1/siw/siw-mpa.ko'
	@echo 'make deb              Debian packages, in build/deb'
	@echo 'make rpm              RPM packages, in build/rpm'
	@echo 'make dist             the sources as an archive, in build/dist'
	@echo 'make demo [FILE=...]  records and a file from host to host, the wire, loss and placing'
	@echo 'make check            everything that must pass; SUITES="unit style": only those'
	@echo 'make check-full       the same, and what takes long'
	@echo 'make test T=mpa_records.NAME [KERNEL=6.1]'
	@echo '                      one test on one kernel, or a program (T=mpa_records), or'
	@echo '                      several (T="mpa_acks mpa_trace.sh"); see selftests/README'
	@echo 'make shell            a shell in a guest that has the module at hand'
	@echo 'make unit             layer 0, the protocol, in user space'
	@echo 'make fuzz TIME=60     fuzz the protocol, and a socket in the debug kernel,'
	@echo '                      for that many seconds each; or RUNS=1000000 executions;'
	@echo '                      TARGETS="frames markers crcs streams tuf socket", SEED=1, JOBS=2'
	@echo 'make bench            measure, beside other ways; Documentation/performance.rst'
	@echo 'make bench-native     the protocol on this processor, compared with memcpy, in GB/s'
	@echo 'make profile          where instructions go, by function'
	@echo 'make export           the series of patches for net-next; scripts/export --help'
	@echo 'make clean'

# W=1 and C=2 (sparse) are handed on to kbuild.
kbuild_args := CONFIG_MPA=m $(if $(W),W=$(W)) $(if $(C),C=$(C)) \
	       $(if $(MPA_DELAYS),MPA_DELAYS=$(MPA_DELAYS))

module: $(if $(KERNEL),,have-headers)
	@for file in $(MODULE_SOURCES); do \
		cmp -s $$file $(BUILD)/$$file || \
			install -D -m 644 $$file $(BUILD)/$$file || exit; \
	done
	@$(kbuild) $(kbuild_args) modules

.PHONY: have-headers
have-headers:
	@test -e $(KDIR)/Makefile || { \
		echo "No kernel headers in $(KDIR)." >&2; \
		echo "Install them (Debian: apt-get install linux-headers-$(RELEASE))," >&2; \
		echo "or name others: make KDIR=/usr/src/linux-headers-..." >&2; \
		echo "To try mpa without touching this machine's kernel: make demo" >&2; \
		exit 1; }

# The release that the headers are for, which need not be the one that runs.
release = $(or $(shell sed -n 's/.*UTS_RELEASE "\(.*\)".*/\1/p' \
		     $(KDIR)/include/generated/utsrelease.h 2>/dev/null),$(RELEASE))
placed = $(INSTALL_MOD_PATH)/lib/modules/$(release)

include scripts/install.mk

# The mpa command, its manual pages (mpa(1)), and the examples; one at a time in a
# folder.
tools:
	@scripts/need gcc make libc6-dev pkgconf libmnl-dev libjansson-dev nettle-dev \
		python3-docutils liburing-dev util-linux
	@mkdir -p $(TOOLS)
	@flock $(TOOLS)/lock $(MAKE) -s command examples

.PHONY: examples
examples:
	@$(MAKE) -s -C examples OUTPUT=$(CURDIR)/build/examples

html:
	@Documentation/html/build
	@echo build/html/index.html

deb:
	@scripts/deb

rpm:
	@scripts/rpm

dist:
	@scripts/dist

siw:
	@siw/build $(or $(KERNEL),6.1) $(if $(W),W=$(W)) $(if $(C),C=$(C))

unit:
	@$(MAKE) -C selftests/unit check

demo:
	@tools/demo/run

TIME ?= 60

fuzz:
	@selftests/fuzz/run $(if $(RUNS),--runs $(RUNS),--time $(TIME)) \
		$(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) \
		$(TARGETS)

check:
	@scripts/check $(SUITES)

check-full:
	@scripts/check --full $(SUITES)

test:
	@scripts/test --kernel $(or $(KERNEL),6.1) '$(T)'

bench:
	@bench/run

bench-native:
	@$(MAKE) -s -C bench OUTPUT=$(CURDIR)/build/bench $(CURDIR)/build/bench/native
	@build/bench/native $(FPDUS)

profile:
	@bench/profile

export:
	@scripts/export $(if $(BASE),--base $(BASE))

shell:
	@[ -t 0 ] && [ -t 1 ] || { echo "make shell needs a terminal; without one:" \
		"make module KERNEL=6.1 && selftests/vm/run -- COMMAND" >&2; exit 2; }
	@$(MAKE) module KERNEL=$(or $(KERNEL),6.1)
	@selftests/vm/run --kernel $(or $(KERNEL),6.1) --shell

clean:
	rm -rf build
