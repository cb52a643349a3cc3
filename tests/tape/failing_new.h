// operator new that can be told to fail. In a source of its own: a compiler that sees both sides of
// new and delete warns of what they are made of.
#pragma once

#include <cstdint>

namespace planck::test {

// Of the allocations by operator new that follow on this thread, the n-th (from 0) throws
// bad_alloc. A negative number: none.
void fail_new(std::int64_t nth);

}  // namespace planck::test
