// What the tests of a backend have compiled once, in compiled.cpp: the tape over Autodiff<B>, for
// second derivatives, and for the Reference backend its first, which the library has for its own.
#pragma once

#include "tests/autodiff/tested_backend.h"
#include "tests/reference/index.h"
#include "tests/reference/pool.h"

// `how` is template, or extern template for what is compiled elsewhere.
#ifdef PLANCK_TESTS_REFERENCE
#define PLANCK_COMPILE_TESTED_OP(how, ...)         \
  how struct Tracking<TestedBackend, __VA_ARGS__>; \
  how struct Tracking<Autodiff<TestedBackend>, __VA_ARGS__>
#define PLANCK_COMPILE_TESTED_TAPE(how)    \
  PLANCK_COMPILE_TAPE(how, TestedBackend); \
  PLANCK_COMPILE_TAPE(how, Autodiff<TestedBackend>)
#else
#define PLANCK_COMPILE_TESTED_OP(how, ...) how struct Tracking<Autodiff<TestedBackend>, __VA_ARGS__>
#define PLANCK_COMPILE_TESTED_TAPE(how) PLANCK_COMPILE_TAPE(how, Autodiff<TestedBackend>)
#endif
#define PLANCK_CREATION(...)

namespace planck {

using test::TestedBackend;

#define PLANCK_OP(...) PLANCK_COMPILE_TESTED_OP(extern template, __VA_ARGS__)
#include "tests/autodiff/tested.list.h"
#undef PLANCK_OP
PLANCK_COMPILE_TESTED_TAPE(extern template);

}  // namespace planck
