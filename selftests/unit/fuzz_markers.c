// SPDX-License-Identifier: GPL-2.0
/* Positions of markers and layouts, compared with a model that counts every octet. */

#include "compare.h"
#include "fuzz.h"

/* Lengths are usually short, as the model counts every octet. */
static u32 take_length(struct fuzz_input *in)
{
	u32 kind = fuzz_take(in, 1), len = fuzz_take(in, 2);

	if (kind == 0x5a)
		return len;
	return len & (kind & 0xf ? 0x3ff : 0xfff);
}

static void layout(struct fuzz_input *in)
{
	u64 position = fuzz_position(in);
	bool markers;
	u32 len;

	markers = fuzz_take(in, 1) & 3;
	len = take_length(in);
	fuzz_note("FPDU at 0x%llx with %llu octets of ULPDU", position, len);
	compare_layout(position, markers, len, fuzz_take(in, 2),
		       fuzz_take(in, 2));
}

static void fill(struct fuzz_input *in)
{
	u64 position = fuzz_position(in);
	bool markers;
	u32 room;

	markers = fuzz_take(in, 1) & 3;
	room = take_length(in);
	fuzz_note("%llu octets of space at 0x%llx", room, position);
	compare_fill(position, markers, room);
}

static void mulpdu(struct fuzz_input *in)
{
	u64 position = fuzz_position(in);
	bool markers;
	u32 emss;

	markers = fuzz_take(in, 1) & 3;
	emss = take_length(in);
	fuzz_note("EMSS of %llu at 0x%llx", emss, position);
	compare_mulpdu(position, markers, emss);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { .data = data, .size = size };

	switch (fuzz_take(&in, 1) % 4) {
	case 0:
	case 1:
		layout(&in);
		break;
	case 2:
		fill(&in);
		break;
	case 3:
		mulpdu(&in);
		break;
	}
	return 0;
}
