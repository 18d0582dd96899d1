// Web pages that use the server from a browser, by the origin that the browser sends.
#pragma once
#include <string_view>

namespace heddle::server {

// Whether a page of this origin can reach the server by DNS rebinding. The owner of a public name can make it resolve
// to the server's address after the page was loaded; then page and server have the same origin, and CORS does not
// apply. Not possible for addresses, localhost, names without a dot, and schemes other than http and https.
bool can_be_rebound(std::string_view origin);

// "https://example.org" or "app://name:8080": as browsers write it, without a path.
bool is_origin(std::string_view text);

}  // namespace heddle::server
