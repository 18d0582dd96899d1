// Lists of a hub: read or refused, and what is chosen of them stays below its folder.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "store/hub_list.h"
#include "store/limits.h"
#include "store/names.h"
#include "tests/fuzz/target.h"

namespace heddle {

// The first byte says which type is asked for.
FUZZ_TARGET(hub_list) {
  if (size == 0) return 0;
  constexpr const char* tags[] = {"", "Q4_K_M", "m", "UD-Q4_K_XL"};
  try {
    const store::HubList list = store::read_hub_list({reinterpret_cast<const char*>(data) + 1, size - 1}, "list");
    if (list.commit.size() != 40) std::abort();
    const store::HubChoice choice = store::choose_from_hub(list, tags[data[0] % 4], "list");
    if (choice.files.empty()) std::abort();
    for (const store::HubFile& file : choice.files)
      if (!store::is_safe_path(file.path) || file.path.find("..") == 0 || file.digest.hex.empty() ||
          file.bytes > store::max_file_bytes)
        std::abort();
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace heddle
