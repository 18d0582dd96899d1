// How tokens are chosen, by the names that other servers have for it.
#pragma once
#include "engine/sampling.h"
#include "server/fields.h"
#include "server/requests.h"

namespace heddle::server {

// All but log-probabilities, which chats and completions ask for in different words.
engine::Sampling sampling_of(Fields& fields, const RequestRules& rules);

}  // namespace heddle::server
