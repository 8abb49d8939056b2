/* Contiguous memory from the kernel module u-dma-buf, with its cache maintenance. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vta.h"

/* Values of sync_direction. */
enum { TO_DEVICE = 1, FROM_DEVICE = 2 };

enum { OFFSET, SIZE, DIRECTION, FOR_CPU, FOR_DEVICE, ATTRIBUTES };
static const char *const names[ATTRIBUTES] = {"sync_offset", "sync_size", "sync_direction",
                                              "sync_for_cpu", "sync_for_device"};
static int files[ATTRIBUTES] = {-1, -1, -1, -1, -1};

/* The module's class had another name once. */
static const char *const class_names[] = {"u-dma-buf", "udmabuf"};

static int write_number(int attribute, uint64_t value)
{
  char text[24];
  int length = snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  return pwrite(files[attribute], text, (size_t)length, 0) != length;
}

static int sync(uint64_t offset, uint64_t size, int direction, int owner)
{
  return write_number(OFFSET, offset) || write_number(SIZE, size) ||
         write_number(DIRECTION, (uint64_t)direction) || write_number(owner, 1);
}

static int clean(void *context, uint64_t offset, uint64_t size)
{
  (void)context;
  return sync(offset, size, TO_DEVICE, FOR_DEVICE);
}

static int invalidate(void *context, uint64_t offset, uint64_t size)
{
  (void)context;
  return sync(offset, size, FROM_DEVICE, FOR_CPU);
}

static int open_attribute(const char *folder, const char *attribute, int mode)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, attribute);
  int file = open(path, mode);
  if (file < 0) vta_fail("%s: %s", path, strerror(errno));
  return file;
}

static int read_number(const char *folder, const char *attribute, uint64_t *value)
{
  char text[64];
  int file = open_attribute(folder, attribute, O_RDONLY);
  if (file < 0) return 1;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[length < 0 ? 0 : length] = '\0';
  char *end;
  *value = strtoull(text, &end, 0);
  return end == text ? vta_fail("%s/%s: no number", folder, attribute) : 0;
}

int vta_open_udmabuf(VtaMemory *memory, const char *name, const char *devices,
                     const char *classes, uint64_t address_offset)
{
  char folder[384] = "", path[512];
  for (size_t i = 0; i < sizeof class_names / sizeof class_names[0]; i++) {
    snprintf(folder, sizeof folder, "%s/%s/%s", classes, class_names[i], name);
    if (access(folder, F_OK) == 0) break;
    folder[0] = '\0';
  }
  if (folder[0] == '\0')
    return vta_fail("no buffer %s in %s/u-dma-buf: load the module, "
                    "for example modprobe u-dma-buf %s=%llu", name, classes, name,
                    (unsigned long long)vta_memory_bytes());
  uint64_t physical, size;
  if (read_number(folder, "phys_addr", &physical) || read_number(folder, "size", &size)) return 1;
  for (int i = 0; i < ATTRIBUTES; i++)
    if ((files[i] = open_attribute(folder, names[i], O_WRONLY)) < 0) return 1;
  snprintf(path, sizeof path, "%s/%s", devices, name);
  int file = open(path, O_RDWR); /* without O_SYNC: through the caches */
  if (file < 0) return vta_fail("%s: %s", path, strerror(errno));
  void *data = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  int reason = errno;
  close(file);
  if (data == MAP_FAILED)
    return vta_fail("%s: cannot map %llu bytes: %s", path, (unsigned long long)size,
                    strerror(reason));
  VtaMemory found = {data, physical + address_offset, size, NULL, clean, invalidate};
  *memory = found;
  return 0;
}

void vta_close_udmabuf(VtaMemory *memory)
{
  munmap(memory->data, (size_t)memory->size);
  for (int i = 0; i < ATTRIBUTES; i++) {
    if (files[i] >= 0) close(files[i]);
    files[i] = -1;
  }
}
