// The border to C: exceptions become a status and a message, results become memory that heddle_free() releases.
#pragma once
#include <heddle.h>

#include <concepts>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace heddle::library {

struct NotFound : Error {
  using Error::Error;
};

// The exception that is being handled, as a status and a message. `of_errors`: the status of an Error.
heddle_status report(heddle_error* error, heddle_status of_errors) noexcept;

template <std::invocable Call>
heddle_status guarded(heddle_error* error, heddle_status of_errors, Call&& call) noexcept {
  try {
    call();
    return HEDDLE_OK;
  } catch (...) {
    return report(error, of_errors);
  }
}

// An Error that names the argument if it is NULL.
template <class T>
T& expect_given(T* argument, const char* name) {
  if (!argument) throw Error("{}: expected a pointer, found NULL", name);
  return *argument;
}
inline std::string expect_text(const char* text, const char* name) { return &expect_given(text, name); }
// `count` texts; they may be NULL where there are none.
std::vector<std::string> expect_texts(const char* const* texts, size_t count, const char* name);

// A copy for the program, with a zero behind it.
template <class T>
T* copied(std::span<const T> values) {
  T* copy = static_cast<T*>(std::calloc(values.size() + 1, sizeof(T)));
  if (!copy) throw std::bad_alloc();
  if (!values.empty()) std::memcpy(copy, values.data(), values.size_bytes());
  return copy;
}

}  // namespace heddle::library
