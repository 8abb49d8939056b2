/* Raw tensors of files: see samples.h. */
#include "samples.h"

#include <stdlib.h>

#include "device.h"

static void **tensors(const DeviceTensor *table, unsigned count)
{
  void **data = calloc(count ? count : 1, sizeof *data);
  for (unsigned i = 0; data != NULL && i < count; i++)
    if ((data[i] = malloc((size_t)table[i].size)) == NULL) return NULL;
  return data;
}

/* Return 1 for a sample, 0 at the end of the file, -1 if the file ends within a sample. */
static int read_sample(const DeviceNetwork *network, FILE *file, void **inputs)
{
  for (unsigned i = 0; i < network->input_count; i++) {
    size_t size = (size_t)network->inputs[i].size, count = fread(inputs[i], 1, size, file);
    if (count == 0 && i == 0) return 0;
    if (count != size) return -1;
  }
  return 1;
}

int device_run_samples(const DeviceNetwork *network, FILE *in, FILE *out)
{
  void **inputs = tensors(network->inputs, network->input_count);
  void **outputs = tensors(network->outputs, network->output_count);
  if (inputs == NULL || outputs == NULL) return device_fail("no memory for the tensors");
  int state;
  while ((state = read_sample(network, in, inputs)) == 1) {
    int status = network->run((const void *const *)inputs, outputs);
    if (status) return status;
    for (unsigned i = 0; i < network->output_count; i++)
      if (fwrite(outputs[i], 1, (size_t)network->outputs[i].size, out) != network->outputs[i].size)
        return device_fail("cannot write the outputs");
  }
  return state == 0 ? 0 : device_fail("the input ends in the middle of a sample");
}
