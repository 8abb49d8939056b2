/* Run a compiled network on VTA from Linux: one network per process, from one thread.
 *
 * 1. Allocate memory: call vta_open_udmabuf, or fill in a VtaMemory.
 * 2. vta_open copies constants and instructions into it and maps the registers.
 * 3. vta_run runs the network, any number of times.
 * Functions that return int return 0 on success; otherwise vta_error has the reason. */
#ifndef VTA_H
#define VTA_H

#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "samples.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The registers of the HLS design of VTA (Xilinx flow), or of its Chisel shell. */
typedef enum { VTA_HLS = 0, VTA_CHISEL = 1 } VtaFlow;

/* Memory that CPU and VTA share, with at least vta_memory_bytes() bytes. */
typedef DeviceMemory VtaMemory;

#define VTA_PAGE 4096u

typedef struct {
  VtaFlow flow;
  uint64_t registers;        /* physical address of the first one; of fetch for VTA_HLS */
  const char *register_file; /* the file that maps them: /dev/mem */
  uint32_t timeout_ms;       /* of a launch */
} VtaSettings;

/* The settings of the board configuration; missing flow and registers are 0. */
VtaSettings vta_default_settings(void);

/* The bytes of memory that vta_open needs. */
uint64_t vta_memory_bytes(void);

/* Initialize memory and map registers; `folder` is the compiled folder, with dram.bin. */
int vta_open(const char *folder, const VtaSettings *settings, const VtaMemory *memory);

/* Run the network; tensors are raw and row-major, in the order of manifest.json. */
int vta_run(const void *const *inputs, void *const *outputs);

/* Release the registers; the memory belongs to the caller. */
void vta_close(void);

/* The reason of the last failure. */
const char *vta_error(void);

/* Nanoseconds and cycles of the last run of a launch; cycles are 0 for VTA_HLS. */
uint64_t vta_launch_nanoseconds(unsigned launch);
uint32_t vta_launch_cycles(unsigned launch);

/* Open the buffer `name` of the kernel module u-dma-buf, for example udmabuf0. `devices` is /dev
 * and `classes` is /sys/class. VTA accesses the buffer `address_offset` above its physical
 * address. */
int vta_open_udmabuf(VtaMemory *memory, const char *name, const char *devices,
                     const char *classes, uint64_t address_offset);
void vta_close_udmabuf(VtaMemory *memory);

/* The properties of the network, which the compiler generates in vta_network.c. */
typedef struct {
  uint32_t offset, size;
} VtaRange;

typedef struct {
  const char *name; /* of the layer, or of the first and the last layer */
  const char *file; /* raw instructions, in the folder */
  uint32_t count;   /* instructions */
  const VtaRange *clean; /* before: bytes written by the CPU must be in memory */
  unsigned clean_count;
  const VtaRange *invalidate; /* after: bytes that the CPU reads next */
  unsigned invalidate_count;
} VtaLaunch;

typedef struct {
  const char *dram_file;
  uint32_t dram_bytes;
  uint32_t uop_bytes, wgt_bytes, inp_bytes, acc_bytes, out_bytes; /* per element in memory */
  unsigned launch_count, input_count, output_count;
  const VtaLaunch *launches;
  const DeviceTensor *inputs, *outputs;
  VtaFlow flow;
  uint64_t registers, address_offset;
  uint32_t timeout_ms; /* ten times the longest predicted launch, at least 1000 */
  int (*run)(void *arena, const void *const *inputs, void *const *outputs);
} VtaNetwork;

extern const VtaNetwork vta_network;

/* Functions that the files of the driver share. */
int vta_map_registers(const VtaSettings *settings);
void vta_unmap_registers(void);
int vta_start_and_wait(uint64_t instructions, uint32_t count, uint64_t no_op, const char *name);
uint32_t vta_cycle_counter(void);

#ifdef __cplusplus
}
#endif
#endif
