// The flag is the only thing that the handler touches.
#include "main/chat/interrupt.h"

#include "base/error.h"

namespace heddle {
namespace {

std::atomic<bool> was_interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a handler may set it");

}  // namespace

Interrupt::Interrupt() {
  was_interrupted = false;
  struct sigaction action = {};
  action.sa_handler = [](int) { was_interrupted = true; };
  action.sa_flags = SA_RESTART;
  check(::sigaction(SIGINT, &action, &before_) == 0, "SIGINT can be handled");
  // A shell lets programs in the background ignore it: Ctrl-C is for another one.
  if (before_.sa_handler == SIG_IGN) ::sigaction(SIGINT, &before_, nullptr);
}

Interrupt::~Interrupt() { ::sigaction(SIGINT, &before_, nullptr); }

const std::atomic<bool>& Interrupt::flag() const { return was_interrupted; }

}  // namespace heddle
