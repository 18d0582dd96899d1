// A wish at random, put to weft.
#include "main/commands/welcome.h"

#include <fmt/format.h>

#include <array>
#include <ostream>
#include <random>
#include <sstream>

#include "main/commands/run_command.h"

namespace heddle {
namespace {

constexpr std::array subjects = {"a boat",         "a little dog", "a red ball",  "a kind bear",   "a lost kitten",
                                 "the big garden", "a small bird", "two friends", "a magic stone", "a rainy day"};

constexpr const char* next =
    "\nTry next:\n"
    "  heddle chat                       talk to this model; it tells stories and knows what heddle is\n"
    "  heddle chat MODEL                 talk to yours: a GGUF file or a folder of safetensors\n"
    "  heddle run MODEL -p \"Once upon\"   continue a text\n"
    "  heddle bench MODEL                how fast it is on this machine\n"
    "  heddle plan MODEL --ctx 8192      the memory it will take\n"
    "  heddle --help                     everything else\n"
    "From a checkout, ./run takes the place of heddle.\n";

}  // namespace

int welcome(std::ostream& out, std::ostream& err) {
  RunOptions options;
  options.chat = true;
  options.prompt = fmt::format("Tell me a story about {}.", subjects[std::random_device{}() % subjects.size()]);
  options.tokens = 400;
  options.sampling.chain.temperature = 0.5f;
  out << "> " << *options.prompt << "\n\n" << std::flush;
  std::istringstream nothing;
  const int status = run_model(options, nothing, out, err);
  if (status == 0) out << next;
  return status;
}

}  // namespace heddle
