// How tokens are chosen, by the names that other servers have for it.
#pragma once
#include "engine/sampling/sampling.h"
#include "server/api/fields.h"
#include "server/api/requests.h"

namespace heddle::server {

// All but log-probabilities, which chats and completions ask for in different words.
engine::Sampling sampling_of(Fields& fields, const RequestRules& rules);

}  // namespace heddle::server
