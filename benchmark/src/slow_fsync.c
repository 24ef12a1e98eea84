// Makes a disk slower: fdatasync and fsync take SLOW_FSYNC_US microseconds more than they do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_more(void) {
	static long us = -1;
	if (us < 0) {
		const char *text = getenv("SLOW_FSYNC_US");
		us = text ? atol(text) : 0;
	}
	struct timespec left = {us / 1000000, us % 1000000 * 1000};
	while (nanosleep(&left, &left) != 0) {
	}
}

int fdatasync(int fd) {
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	wait_more();
	return real(fd);
}

int fsync(int fd) {
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
	wait_more();
	return real(fd);
}
