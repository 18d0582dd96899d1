// What an answer must be, as the user says it: on the command line of run and chat, and with /set.
#pragma once
#include <memory>
#include <string>

#include "main/device/constraint.h"

namespace CLI {
class App;
}

namespace heddle {

struct ConstraintOptions {
  std::string schema, grammar;  // files
  std::string choices;          // A,B
  std::string regex;
};
void describe_constraint(CLI::App& command, ConstraintOptions& options);

// Null: the answer may be anything. An Error for two of them, and one that names the option or file, and the place in
// it, for what cannot be read or kept.
std::shared_ptr<grammar::CompiledGrammar> read_constraint(const ConstraintOptions& options);

}  // namespace heddle
