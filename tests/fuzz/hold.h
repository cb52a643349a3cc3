// What fuzz targets hold their readers to.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "planck/core/result.h"

inline void hold(bool condition, const char* promise) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

inline void hold_error(const planck::Error& error) {
  hold(!error.message.empty() && error.message.size() < 2000, "an error is a short text");
  for (const char c : error.message)
    hold(static_cast<unsigned char>(c) >= 0x20, "an error is one line");
}
