/* A CPU's caches before the mock device's memory, for LD_PRELOAD: who maps udmabuf0 gets a copy,
 * and sync_for_device and sync_for_cpu move bytes between copy and memory, as u-dma-buf's do.
 *
 * MOCK_IGNORE=n leaves out the n-th of them. MOCK_EVICT=n writes all dirty lines back before the
 * n-th, as caches may at any time. MOCK_DIRTY is a file that has, after each, the lines that are
 * dirty then: an address of 8 bytes and the line, for the device to put over its own results.
 * MOCK_LOG is a file to which each is written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINE = 64 };

static unsigned char *memory, *copy, *clean_copy;
static unsigned long size, offset, length, direction;
static long number;

static int is_named(int file, const char *name)
{
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t count = readlink(link, path, sizeof path - 1);
  if (count < 0) return 0;
  path[count] = '\0';
  const char *last = strrchr(path, '/');
  return last != NULL && strcmp(last + 1, name) == 0;
}

static long setting(const char *name)
{
  const char *text = getenv(name);
  return text == NULL ? -1 : atol(text);
}

static void *map(void *address, size_t bytes, int protection, int flags, int file, off64_t at)
{
  typedef void *Map(void *, size_t, int, int, int, off64_t);
  Map *real = (Map *)dlsym(RTLD_NEXT, "mmap64");
  void *found = real(address, bytes, protection, flags, file, at);
  if (file < 0 || found == MAP_FAILED || !is_named(file, "udmabuf0")) return found;
  memory = found;
  size = bytes;
  copy = real(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  clean_copy = real(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return copy;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t at)
{
  return map(address, bytes, protection, flags, file, at);
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off64_t at)
{
  return map(address, bytes, protection, flags, file, at);
}

int munmap(void *address, size_t bytes)
{
  typedef int Unmap(void *, size_t);
  return ((Unmap *)dlsym(RTLD_NEXT, "munmap"))(address, bytes);
}

static void write_back(unsigned long at, unsigned long bytes)
{
  memcpy(memory + at, copy + at, bytes);
  memcpy(clean_copy + at, copy + at, bytes);
}

static void evict(void)
{
  for (unsigned long at = 0; at + LINE <= size; at += LINE)
    if (memcmp(copy + at, clean_copy + at, LINE) != 0) write_back(at, LINE);
}

static void tell(const char *path)
{
  char other[PATH_MAX];
  snprintf(other, sizeof other, "%s.new", path);
  FILE *file = fopen(other, "wb");
  for (unsigned long at = 0; at + LINE <= size; at += LINE)
    if (memcmp(copy + at, clean_copy + at, LINE) != 0) {
      fwrite(&at, sizeof at, 1, file);
      fwrite(copy + at, 1, LINE, file);
    }
  fclose(file);
  rename(other, path);
}

static void move(int for_device)
{
  if (setting("MOCK_IGNORE") == number) return;
  unsigned long at = offset / LINE * LINE, end = (offset + length + LINE - 1) / LINE * LINE;
  if (for_device && direction != 2) write_back(at, end - at);
  if (!for_device && direction != 1) {
    memcpy(copy + at, memory + at, end - at);
    memcpy(clean_copy + at, memory + at, end - at);
  }
}

static void synchronize(int for_device)
{
  const char *path = getenv("MOCK_LOG"), *dirty = getenv("MOCK_DIRTY");
  number++;
  if (path != NULL) {
    FILE *log = fopen(path, "a");
    fprintf(log, "%s %lu %lu\n", for_device ? "clean" : "invalidate", offset, length);
    fclose(log);
  }
  if (setting("MOCK_EVICT") == number) evict();
  move(for_device);
  if (dirty != NULL) tell(dirty);
}

static ssize_t put(int file, const void *data, size_t bytes, off64_t at)
{
  typedef ssize_t Put(int, const void *, size_t, off64_t);
  char text[32] = "";
  memcpy(text, data, bytes < sizeof text ? bytes : sizeof text - 1);
  unsigned long value = strtoul(text, NULL, 0);
  if (is_named(file, "sync_offset")) offset = value;
  if (is_named(file, "sync_size")) length = value;
  if (is_named(file, "sync_direction")) direction = value;
  if (is_named(file, "sync_for_device") && value == 1) synchronize(1);
  if (is_named(file, "sync_for_cpu") && value == 1) synchronize(0);
  return ((Put *)dlsym(RTLD_NEXT, "pwrite64"))(file, data, bytes, at);
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t at)
{
  return put(file, data, bytes, at);
}

ssize_t pwrite64(int file, const void *data, size_t bytes, off64_t at)
{
  return put(file, data, bytes, at);
}
