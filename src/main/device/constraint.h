// What an answer must be: a grammar, compiled and put to a model's vocabulary.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/request.h"
#include "grammar/source.h"
#include "main/device/running_model.h"

namespace heddle::grammar {
class CompiledGrammar;
}

namespace heddle {

// An Error begins with `name`, an option or a file, and the place in it.
std::shared_ptr<grammar::CompiledGrammar> compile_constraint(const std::string& name, const grammar::Source& source);

// The same for the model's vocabulary; unset if there is none.
std::optional<engine::Constrained> constraint_for(const RunningModel& running,
                                                  std::shared_ptr<grammar::CompiledGrammar> compiled);

}  // namespace heddle
