#include "library/calls.h"

#include <algorithm>
#include <system_error>

#include "base/utf8.h"
#include "engine/engine.h"

namespace heddle::library {
namespace {

void write_message(heddle_error* error, std::string_view text) {
  if (!error) return;
  constexpr std::string_view more = "...";
  const size_t room = sizeof error->message - 1;
  size_t size = text.size();
  if (size > room) {
    size = room - more.size();
    while (size > 0 && (uint8_t(text[size]) & 0xC0) == 0x80) --size;  // no part of a character
  }
  char* end = std::copy_n(text.data(), size, error->message);
  if (size < text.size()) end = std::copy(more.begin(), more.end(), end);
  *end = 0;
}

}  // namespace

heddle_status report(heddle_error* error, heddle_status of_errors) noexcept {
  const auto with = [error](heddle_status status, const char* text) {
    write_message(error, text);
    return status;
  };
  try {
    throw;
  } catch (const NotFound& caught) {
    return with(HEDDLE_NOT_FOUND, caught.what());
  } catch (const engine::InvalidRequest& caught) {
    return with(HEDDLE_INVALID, caught.what());
  } catch (const engine::Stopped& caught) {
    return with(HEDDLE_FAILED, caught.what());
  } catch (const Error& caught) {
    return with(of_errors, caught.what());
  } catch (const std::bad_alloc&) {
    return with(HEDDLE_FAILED, "out of memory");
  } catch (const std::system_error& caught) {  // no more threads
    return with(HEDDLE_FAILED, caught.what());
  } catch (const std::exception& caught) {
    return with(HEDDLE_BUG, caught.what());
  } catch (...) {
    return with(HEDDLE_BUG, "an exception of an unknown type");
  }
}

std::vector<std::string> expect_texts(const char* const* texts, size_t count, const char* name) {
  std::vector<std::string> copies;
  if (count > 0) expect_given(texts, name);
  for (size_t i = 0; i < count; ++i) {
    if (!texts[i]) throw Error("{}[{}]: expected a text, found NULL", name, i);
    copies.emplace_back(texts[i]);
  }
  return copies;
}

}  // namespace heddle::library
