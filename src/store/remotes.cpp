#include "store/remotes.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "store/http_client.h"
#include "store/names.h"

namespace heddle::store {
namespace {

std::string text_in(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value ? value : "";
}

std::string address_in(const Environment& environment, const char* name, const std::string& usual) {
  std::string address = text_in(environment, name);
  if (address.empty()) return usual;
  while (address.ends_with('/')) address.pop_back();
  try {
    origin_of(address);
  } catch (const Error& error) {
    throw Error("{}: {}", name, error.what());
  }
  return address;
}

// It becomes a header: a line break in it would be another one.
void expect_token(const std::string& token, const std::string& where) {
  if (token.size() > 1024 || !std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; }))
    throw Error("{}: expected a token of printable ASCII characters, found others", where);
}

std::string hub_token(const Environment& environment) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (const std::string token = text_in(environment, name); !token.empty()) {
      expect_token(token, name);
      return token;
    }
  std::filesystem::path path = text_in(environment, "HF_TOKEN_PATH");
  if (path.empty() && !hugging_face_home(environment).empty()) path = hugging_face_home(environment) / "token";
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored)) return {};
  std::ifstream file(path);
  std::string token;
  file >> token;
  expect_token(token, path.string());
  return token;
}

}  // namespace

std::string Remotes::registry_address(const std::string& host) const {
  if (host == ollama_host) return registry;
  const bool here = host.starts_with("localhost") || host.starts_with("127.");
  return (here ? "http://" : "https://") + host;
}

Remotes remotes_of(const Environment& environment) {
  Remotes remotes;
  remotes.hub = address_in(environment, "HF_ENDPOINT", remotes.hub);
  remotes.hub_token = hub_token(environment);
  remotes.registry = address_in(environment, "HEDDLE_OLLAMA_REGISTRY", remotes.registry);
  remotes.ca_file = text_in(environment, "SSL_CERT_FILE");
  if (remotes.ca_file.empty()) remotes.ca_file = text_in(environment, "CURL_CA_BUNDLE");
  const std::string offline = lower_case(text_in(environment, "HF_HUB_OFFLINE"));
  remotes.offline = offline == "1" || offline == "true" || offline == "yes" || offline == "on";
  return remotes;
}
Remotes remotes_of_process() {
  return remotes_of([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace heddle::store
