/* Calls of startup.c to the debugger, or to qemu. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#ifdef __cplusplus
extern "C" {
#endif
int semihosting(int operation, const void *argument);
void leave(int status);
#ifdef __cplusplus
}
#endif

#endif
