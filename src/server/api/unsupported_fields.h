// Fields of OpenAI's API, and of other servers that speak it, for what heddle does not do.
#pragma once
#include "server/api/fields.h"

namespace heddle::server {

// Throws an ApiError for one that asks for something. A value that asks for nothing (no tools, text as the format) is
// taken.
void refuse_unsupported(Fields& fields);

}  // namespace heddle::server
