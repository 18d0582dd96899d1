// Where models are pulled from, as the environment says it.
#pragma once
#include <string>

#include "store/places.h"

namespace heddle::store {

struct Remotes {
  std::string hub = "https://huggingface.co";           // HF_ENDPOINT
  std::string hub_token;                                // HF_TOKEN, or the file that `hf auth login` writes
  std::string registry = "https://registry.ollama.ai";  // HEDDLE_OLLAMA_REGISTRY: of names without a host
  std::string ca_file;                                  // SSL_CERT_FILE or CURL_CA_BUNDLE: certificates to trust
  bool offline = false;                                 // HF_HUB_OFFLINE

  // Of a registry by its host. This machine is asked without encryption.
  std::string registry_address(const std::string& host) const;
};

// An Error names the variable for an address or a token that is none.
Remotes remotes_of(const Environment& environment);
Remotes remotes_of_process();

}  // namespace heddle::store
