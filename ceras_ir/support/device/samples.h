/* Run a network on files of raw tensors: samples, one after the other, each with all tensors in the
 * order of manifest.json. */
#ifndef CERAS_SAMPLES_H
#define CERAS_SAMPLES_H

#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char *name;
  uint64_t size; /* bytes */
} DeviceTensor;

typedef struct {
  unsigned input_count, output_count;
  const DeviceTensor *inputs, *outputs;
  /* Run one sample; return 0, or a status with the reason for device_error. */
  int (*run)(const void *const *inputs, void *const *outputs);
} DeviceNetwork;

/* Run all samples of `in`. Return 0, or the status of `run`; 1 for errors of the files. */
int device_run_samples(const DeviceNetwork *network, FILE *in, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
