// heddle pull, and the offer to pull what a command needs.
#pragma once
#include <iosfwd>
#include <string>

#include "main/models/named_model.h"
#include "store/pull.h"

namespace heddle {

struct PullSettings {
  unsigned connections = 4;
};

// The own store and the sources of the environment.
store::PullOptions pull_options(const PullSettings& settings = {});

// Pulls with progress on `err`, and writes the model's name and place to `out` if there is one. The exit status: 130
// if Ctrl-C interrupted it, which keeps what has come.
int pull_model(const store::PullPlan& plan, store::PullOptions options, std::ostream* out, std::ostream& err);

// Where a person is there to answer: asks whether to pull the model, with its size, and does it. Unset: it is here now.
// Otherwise the exit status of the command that wants it, `command`. Without a terminal, and for commands that do not
// run a model for someone, throws `missing`, whose message has the command that pulls it.
std::optional<int> offer_to_pull(const NoSuchModel& missing, const std::string& command, std::istream& in,
                                 std::ostream& err);

}  // namespace heddle
