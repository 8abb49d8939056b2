/* Run a compiled network with its circuit from Linux: one network per process, from one thread.
 *
 * 1. Get memory: call circuit_open_udmabuf, or fill in a CircuitMemory.
 * 2. circuit_open maps the registers and compares the bitstream with the network.
 * 3. circuit_run runs the network; circuit_transfer passes streams to the circuit only.
 * Functions return 0 on success; otherwise a CircuitStatus, and circuit_error has the reason. */
#ifndef CIRCUIT_H
#define CIRCUIT_H

#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "samples.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CIRCUIT_OK = 0,
  CIRCUIT_FAILED = 1,          /* a file, the memory, or an argument */
  CIRCUIT_WRONG_BITSTREAM = 3, /* no circuit, or that of another network */
  CIRCUIT_BUS_ERROR = 4,       /* the memory answered with an error */
  CIRCUIT_WRONG_FRAME = 5,     /* a frame was too short or too long; the next is correct */
  CIRCUIT_TIMEOUT = 6,         /* the launch was ended; the circuit can be used again */
  CIRCUIT_HANGS = 7,           /* the circuit does not answer a reset: load the bitstream */
  CIRCUIT_REJECTED = 8         /* the circuit rejected addresses or size */
} CircuitStatus;

/* Memory that CPU and circuit share: the streams of the input and of the outputs. */
typedef DeviceMemory CircuitMemory;

typedef struct {
  uint64_t registers;        /* physical address; 0 for a UIO device */
  const char *register_file; /* the file that maps them: /dev/mem, or /dev/uio0 */
  const char *interrupt;     /* a UIO device whose interrupts end the wait, or NULL: poll */
  uint32_t timeout_ms;       /* of a launch */
} CircuitSettings;

/* The settings of the board. */
CircuitSettings circuit_default_settings(void);

/* The bytes of memory for launches of `frames` frames; 0 frames: those of an inference. */
uint64_t circuit_memory_bytes(uint32_t frames);

int circuit_open(const CircuitSettings *settings, const CircuitMemory *memory);
void circuit_close(void);

/* Run the network; tensors are raw and row-major, in the order of manifest.json. */
int circuit_run(const void *const *inputs, void *const *outputs);

/* Pass the stream `input` of `bytes` bytes to the circuit, and write the stream of each output.
 * Streams have whole frames, one after the other, as circuit_frames.h packs them. A launch has as
 * many frames as the memory holds. */
int circuit_transfer(const void *input, size_t bytes, void *const *outputs);

/* The reason of the last failure. */
const char *circuit_error(void);

/* Frames, cycles and nanoseconds of the last launch. */
uint32_t circuit_frames(void);
uint32_t circuit_cycles(void);
uint64_t circuit_nanoseconds(void);

/* Open the buffer `name` of the kernel module u-dma-buf, for example udmabuf0. `devices` is /dev
 * and `classes` is /sys/class. */
int circuit_open_udmabuf(CircuitMemory *memory, const char *name, const char *devices,
                         const char *classes);
void circuit_close_udmabuf(CircuitMemory *memory);

/* The properties of the network, which the compiler generates in circuit_network.c. */
typedef struct {
  uint32_t configuration; /* the hash of the circuit */
  uint64_t registers;
  uint32_t timeout_ms; /* ten times the prediction, at least 1000 */
  unsigned input_count, output_count;
  const DeviceTensor *inputs, *outputs;
  int (*run)(void *arena, const void *const *inputs, void *const *outputs);
} CircuitNetwork;

extern const CircuitNetwork circuit_network;

#ifdef __cplusplus
}
#endif
#endif
