// Manifests of a registry: read or refused; a digest is always one.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "store/limits.h"
#include "store/manifest.h"
#include "store/names.h"
#include "tests/fuzz/target.h"

namespace heddle {

FUZZ_TARGET(manifest) {
  try {
    const store::Manifest manifest = store::read_manifest({reinterpret_cast<const char*>(data), size}, "manifest");
    if (manifest.problem.empty() != store::is_sha256(manifest.sha256) || manifest.bytes > store::max_file_bytes)
      std::abort();
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace heddle
