// As much of Arduino's API as the generated sketches use, over semihosting: numbers come from
// in.bin, floats go to out.bin as their bits, text to the debugger's console.
#pragma once

#include <stdint.h>

#define OUTPUT 1
#define INPUT_PULLUP 2
#define FALLING 2
#define HIGH 1
#define LOW 0
constexpr int A0 = 14;

template <class T> T constrain(T x, T low, T high) { return x < low ? low : x > high ? high : x; }

unsigned long micros();
void delay(unsigned long milliseconds);
void pinMode(int pin, int mode);
void digitalWrite(int pin, int level);
int analogRead(int pin);
int digitalPinToInterrupt(int pin);
void attachInterrupt(int interrupt, void (*handler)(), int mode);

struct Port {
  void begin(long) {}
  // Every number has an end of line before it, of which parseFloat() makes 0.
  bool is_line_end = true;
  int peek() { return is_line_end ? '\n' : '0'; }
  int read()
  {
    is_line_end = false;
    return '\n';
  }
  float parseFloat();
  void print(const char *text);
  void println(const char *text = "");
  void print(unsigned long value);
  void println(unsigned long value);
  void print(int value);
  void println(int value);
  void println(signed char value) { println((float)value, 0); }
  void println(float value, int digits);
};
extern Port Serial;

void setup();
void loop();
