/* Registers and contiguous memory of a device: see device.h. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device.h"

enum { PAGE = 4096 };

static char error[512];

int device_fail(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error, sizeof error, format, arguments);
  va_end(arguments);
  return 1;
}

const char *device_error(void) { return error; }

void device_clear_error(void) { error[0] = '\0'; }

uint64_t device_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void device_barrier(void)
{
#if defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
  __asm__ volatile("dsb sy" ::: "memory");
#else
  __sync_synchronize();
#endif
}

enum { LONGEST_SLEEP_MS = 100 }; /* a lost interrupt costs this time */

/* Only `is_idle` shows the end. An interrupt triggers a call. */
int device_wait(int (*is_idle)(void *context), void *context, int interrupt,
                uint32_t milliseconds)
{
  const uint64_t start = device_now();
  while (!is_idle(context)) {
    const uint64_t waited = (device_now() - start) / 1000000u;
    if (waited >= milliseconds) return 1;
    if (interrupt < 0) {
      sched_yield();
      continue;
    }
    const uint32_t one = 1;
    uint32_t count;
    struct pollfd event = {interrupt, POLLIN, 0};
    if (write(interrupt, &one, sizeof one) != sizeof one) {
      device_fail("cannot enable the interrupt: %s", strerror(errno));
      return -1;
    }
    if (is_idle(context)) break;
    const uint64_t left = milliseconds - waited;
    const int limit = left < LONGEST_SLEEP_MS ? (int)left : LONGEST_SLEEP_MS;
    if (poll(&event, 1, limit) > 0 && read(interrupt, &count, sizeof count) != sizeof count) {
      device_fail("cannot read the interrupt: %s", strerror(errno));
      return -1;
    }
  }
  return 0;
}

int device_open_interrupt(const char *path)
{
  const int file = open(path, O_RDWR);
  if (file < 0) device_fail("%s: %s", path, strerror(errno));
  return file;
}

void device_write(const DeviceRegisters *registers, unsigned offset, uint32_t value)
{
  *(volatile uint32_t *)(registers->base + offset) = value;
}

uint32_t device_read(const DeviceRegisters *registers, unsigned offset)
{
  return *(volatile uint32_t *)(registers->base + offset);
}

int device_map_registers(DeviceRegisters *registers, const char *path, uint64_t address,
                         size_t bytes)
{
  if (address % PAGE != 0)
    return device_fail("registers at 0x%llx, expected a multiple of %d",
                       (unsigned long long)address, PAGE);
  int file = open(path, O_RDWR | O_SYNC);
  if (file < 0)
    return device_fail("%s: %s%s", path, strerror(errno),
                       errno == EACCES || errno == EPERM ? "; run as root" : "");
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)address);
  int reason = errno;
  close(file);
  if (base == MAP_FAILED)
    return device_fail("%s: cannot map registers at 0x%llx: %s", path, (unsigned long long)address,
                       strerror(reason));
  registers->base = (volatile unsigned char *)base;
  registers->bytes = bytes;
  return 0;
}

void device_unmap_registers(DeviceRegisters *registers)
{
  munmap((void *)registers->base, registers->bytes);
  registers->base = NULL;
}

/* Values of sync_direction. */
enum { TO_DEVICE = 1, FROM_DEVICE = 2 };

enum { OFFSET, SIZE, DIRECTION, FOR_CPU, FOR_DEVICE, ATTRIBUTES };
static const char *const names[ATTRIBUTES] = {"sync_offset", "sync_size", "sync_direction",
                                              "sync_for_cpu", "sync_for_device"};
static int files[ATTRIBUTES] = {-1, -1, -1, -1, -1};

/* The class of older versions of the module has another name. */
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
  if (file < 0) device_fail("%s: %s", path, strerror(errno));
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
  return end == text ? device_fail("%s/%s: no number", folder, attribute) : 0;
}

int device_open_udmabuf(DeviceMemory *memory, const char *name, const char *devices,
                        const char *classes, uint64_t wanted)
{
  char folder[384] = "", path[512];
  for (size_t i = 0; i < sizeof class_names / sizeof class_names[0]; i++) {
    snprintf(folder, sizeof folder, "%s/%s/%s", classes, class_names[i], name);
    if (access(folder, F_OK) == 0) break;
    folder[0] = '\0';
  }
  if (folder[0] == '\0')
    return device_fail("no buffer %s in %s/u-dma-buf: load the module, "
                    "for example modprobe u-dma-buf %s=%llu", name, classes, name,
                    (unsigned long long)wanted);
  uint64_t physical, size;
  if (read_number(folder, "phys_addr", &physical) || read_number(folder, "size", &size)) return 1;
  for (int i = 0; i < ATTRIBUTES; i++)
    if ((files[i] = open_attribute(folder, names[i], O_WRONLY)) < 0) return 1;
  snprintf(path, sizeof path, "%s/%s", devices, name);
  int file = open(path, O_RDWR); /* without O_SYNC: through the caches */
  if (file < 0) return device_fail("%s: %s", path, strerror(errno));
  void *data = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  int reason = errno;
  close(file);
  if (data == MAP_FAILED)
    return device_fail("%s: cannot map %llu bytes: %s", path, (unsigned long long)size,
                    strerror(reason));
  DeviceMemory found = {(unsigned char *)data, physical, size, NULL, clean, invalidate};
  *memory = found;
  return 0;
}

void device_close_udmabuf(DeviceMemory *memory)
{
  munmap(memory->data, (size_t)memory->size);
  for (int i = 0; i < ATTRIBUTES; i++) {
    if (files[i] >= 0) close(files[i]);
    files[i] = -1;
  }
}
