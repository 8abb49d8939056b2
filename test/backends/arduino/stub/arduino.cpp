// The stub's functions, and a main that runs the sketch until in.bin ends. With SCAN, in.bin has
// what the sensor reads, and main presses the buttons: black, white, then cell after cell. With
// LOOPS, main calls loop() this number of times.
#include "Arduino.h"

#include "semihosting.h"

Port Serial;
static int in, out;
static void (*handlers[32])();

static float next_float()
{
  float value;
  if (transfer(0x06, in, &value, sizeof value) != 0) leave(0);
  return value;
}

static void put_number(long value)
{
  char text[12], *at = text + 11;
  *at = 0;
  unsigned long rest = value < 0 ? -value : value;
  do *--at = (char)('0' + rest % 10);
  while (rest /= 10);
  if (value < 0) *--at = '-';
  Serial.print(at);
}

float Port::parseFloat()
{
  if (is_line_end) return 0;
  is_line_end = true;
  return next_float();
}
void Port::print(const char *text) { semihosting(0x04, text); }
void Port::println(const char *text) { print(text), print("\n"); }
void Port::print(unsigned long value) { put_number((long)value); }
void Port::println(unsigned long value) { print(value), print("\n"); }
void Port::print(int value) { put_number(value); }
void Port::println(int value) { print(value), print("\n"); }
void Port::println(float value, int) { transfer(0x05, out, &value, sizeof value); }

unsigned long micros() { return 0; }
void delay(unsigned long) {}
void pinMode(int, int) {}
void digitalWrite(int, int) {}
int analogRead(int) { return (int)next_float(); }
int digitalPinToInterrupt(int pin) { return pin; }
void attachInterrupt(int interrupt, void (*handler)(), int) { handlers[interrupt] = handler; }

int main()
{
  in = open_file("in.bin", 6, 1);
  out = open_file("out.bin", 7, 5);
  setup();
#ifdef SCAN
  for (int press = 0;; ++press) {
    handlers[press < 2 ? 2 : 3]();
    loop();
  }
#elif defined(LOOPS)
  for (int i = 0; i < LOOPS; ++i) loop();
#else
  for (;;) loop();
#endif
}
