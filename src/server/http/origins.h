// Pages in a browser, by the origin that it sends with their requests.
#pragma once
#include <string_view>

namespace heddle::server {

// Whether the page has a name that can be made to mean this machine: who owns a public name can, for a visitor's
// browser, turn it into this address after the page was loaded, and then the page is of the same origin as the server
// and CORS does not keep it out. Numbers cannot be turned so, nor localhost, nor names without a dot, nor what is not
// of the web.
bool can_be_rebound(std::string_view origin);

// "https://example.org" or "app://name:8080": as a browser writes it, without a path.
bool is_origin(std::string_view text);

}  // namespace heddle::server
