/*
 * The floor: the least that a look at the node can cost.
 *
 * Opens every file named on standard input, then reads all of them again on the kept
 * descriptors, as often as the argument says. Nothing is decoded, compared or kept.
 * Prints the seconds of processor time that one round took.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double processor_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct rlimit limit;
	char path[4096], content[512];
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	int *files = NULL, count = 0;
	double started;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	while (fgets(path, sizeof(path), stdin)) {
		path[strcspn(path, "\n")] = 0;
		files = realloc(files, (count + 1) * sizeof(int));
		files[count] = open(path, O_RDONLY | O_CLOEXEC);
		if (files[count++] < 0) {
			perror(path);
			return 1;
		}
	}
	started = processor_seconds();
	for (int round = 0; round < rounds; round++)
		for (int file = 0; file < count; file++)
			if (pread(files[file], content, sizeof(content), 0) < 0) {
				perror("pread");
				return 1;
			}
	printf("%.9f\n", (processor_seconds() - started) / rounds);
	return 0;
}
