// Looking up what came.
#include "server/http/http.h"

namespace heddle::server {

const std::string* HttpRequest::header(std::string_view name) const {
  for (const Header& header : headers)
    if (header.name == name) return &header.value;
  return nullptr;
}

}  // namespace heddle::server
