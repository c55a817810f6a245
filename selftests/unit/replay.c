// SPDX-License-Identifier: GPL-2.0
/* FILE...: run a fuzz target on these inputs, without libFuzzer. */

#include <stdio.h>
#include <stdlib.h>
#include "fuzz.h"

int main(int argc, char **argv)
{
	static u8 octets[1 << 16];

	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		size_t size;
		u8 *exact;

		if (!file) {
			perror(argv[i]);
			return 2;
		}
		size = fread(octets, 1, sizeof(octets), file);
		fclose(file);
		exact = malloc(size);
		memcpy(exact, octets, size);
		LLVMFuzzerTestOneInput(exact, size);
		free(exact);
	}
	printf("%d inputs\n", argc - 1);
	return 0;
}
