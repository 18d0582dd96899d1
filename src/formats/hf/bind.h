// A description and the tensors of files -> tensors in GGUF's terms.
#pragma once
#include "formats/checkpoint.h"
#include "formats/hf/description.h"

namespace heddle::formats::hf {

// `tensors` and `unreadable` are as the files have them; `source` names the folder in errors. Shapes are compared;
// missing tensors and unexpected ones are Errors that list the names. Views stay views where the bytes can be used
// unchanged.
std::vector<Tensor> bind(const Description& description, std::vector<Tensor> tensors,
                         const std::vector<Unreadable>& unreadable, const std::string& source);

}  // namespace heddle::formats::hf
