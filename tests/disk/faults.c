/* Makes one call on the files of a log fail: loaded into a process with LD_PRELOAD.

   fault_arm says which call, counted from 1 over all writes, syncs, truncations, renames and
   removals of files whose path begins with a prefix. Before that, nothing is counted. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { ONCE = 0, EVER = 1, TORN = 2 };

static char prefix[PATH_MAX];
static long calls, fatal;
static int error_number, manner, armed;

void fault_arm(const char *path, long at, int error, int how)
{
    snprintf(prefix, sizeof prefix, "%s", path);
    calls = 0, fatal = at, error_number = error, manner = how, armed = 1;
}

long fault_calls(void) { return calls; }

static int is_ours(const char *path) { return strncmp(path, prefix, strlen(prefix)) == 0; }

static int is_open_file_ours(int file)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return is_ours(path);
}

/* Count a call; return whether it has to fail. */
static int fails(void)
{
    long number = __sync_add_and_fetch(&calls, 1);
    if (number != fatal && !(manner == EVER && fatal && number > fatal))
        return 0;
    if (manner == TORN)
        kill(getpid(), SIGKILL);
    errno = error_number;
    return 1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define ON_FILE(kind, name, declared, given) \
    kind name declared \
    { \
        REAL(name); \
        if (armed && is_open_file_ours(file) && fails()) \
            return -1; \
        return real given; \
    }

#define WRITING(name, declared, given, half) \
    ssize_t name declared \
    { \
        REAL(name); \
        if (armed && is_open_file_ours(file)) { \
            if (manner == TORN && calls + 1 == fatal) \
                (void)!real half; \
            if (fails()) \
                return -1; \
        } \
        return real given; \
    }

WRITING(write, (int file, const void *data, size_t size), (file, data, size), (file, data, size / 2))
WRITING(pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at),
        (file, data, size / 2, at))
WRITING(pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at),
        (file, data, size / 2, at))
ON_FILE(int, fsync, (int file), (file))
ON_FILE(int, fdatasync, (int file), (file))
ON_FILE(int, ftruncate, (int file, off_t size), (file, size))
ON_FILE(int, ftruncate64, (int file, off64_t size), (file, size))

int rename(const char *from, const char *to)
{
    REAL(rename);
    if (armed && is_ours(to) && fails())
        return -1;
    return real(from, to);
}

int unlink(const char *path)
{
    REAL(unlink);
    if (armed && is_ours(path) && fails())
        return -1;
    return real(path);
}
