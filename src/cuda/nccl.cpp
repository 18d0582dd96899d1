#include "cuda/nccl.h"

namespace heddle::cuda {

namespace {

// NCCL's numbers.
constexpr int nccl_success = 0, nccl_in_progress = 7, nccl_f32 = 7, nccl_sum = 0;

std::string nccl_version_name(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

SharedLibrary open_nccl(const std::string& path) {
  SharedLibrary library =
      open_first(path.empty() ? std::vector<std::string>{"libnccl.so.2", "libnccl.so"} : std::vector{path});
  if (!library.handle)
    throw NoNccl(fmt::format("no NCCL library (tried {}); HEDDLE_LIBNCCL can name one", library.tried));
  return library;
}

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Nccl::Nccl(const std::string& path) : library(open_nccl(path)) {
  const Call<int*> ask(*this, "ncclGetVersion", 20000);
  if (ask(&version) != nccl_success) version = 0;
}

void* Nccl::find(const char* symbol, int since, bool optional) const {
  void* address = dlsym(library.handle, symbol);
  if (!address && !optional)
    throw NoNccl(fmt::format("the library {} has no {}: heddle needs NCCL {} or newer", library.path, symbol,
                             nccl_version_name(since)));
  return address;
}

std::string Nccl::version_text() const { return nccl_version_name(version); }

std::string Nccl::reason(int code) const {
  const auto text = reinterpret_cast<const char* (*)(int)>(dlsym(library.handle, "ncclGetErrorString"));
  const char* found = text ? text(code) : nullptr;
  return fmt::format("{} (NCCL error {})", found ? found : "unknown error", code);
}

const Nccl& nccl() { return opened_once<Nccl>("HEDDLE_LIBNCCL"); }

NcclId make_nccl_id() {
  NcclId id{};
  const Nccl& api = nccl();
  if (const int result = api.unique_id(&id))
    throw NcclError(fmt::format("{}: {}", api.unique_id.name, api.reason(result)));
  return id;
}

Communicator::Communicator(const Context& context, const NcclId& id, uint32_t rank, uint32_t ranks)
    : context_(context), api_(&nccl()) {
  context_.use();
  void* handle = nullptr;
  call(api_->init_rank(&handle, int(ranks), id, int(rank)), api_->init_rank.name);
  handle_ = handle;
}

Communicator::Communicator(Communicator&& other) noexcept
    : context_(other.context_), api_(other.api_), handle_(other.handle_.exchange(nullptr)) {}

// Not destroyed but aborted: that waits for no other rank. What was in its streams is done by then.
Communicator::~Communicator() { abort(); }

void Communicator::abort() noexcept {
  if (void* handle = handle_.exchange(nullptr)) api_->comm_abort(handle);
}

void Communicator::call(int result, const char* name) const {
  if (result != nccl_success && result != nccl_in_progress)
    throw NcclError(fmt::format("{}: {}", name, api_->reason(result)));
}

std::string Communicator::failure() const {
  void* handle = handle_;
  if (!handle) return "the group was ended";
  int result = nccl_success;
  if (const int asked = api_->async_error(handle, &result)) result = asked;
  return result == nccl_success || result == nccl_in_progress ? "" : api_->reason(result);
}

namespace {

void* expect_alive(void* handle) {
  if (!handle) throw NcclError("the group of ranks was ended");
  return handle;
}

}  // namespace

void Communicator::sum(Stream& stream, uint64_t values, uint64_t count) {
  context_.use();
  call(api_->all_reduce(pointer(values), pointer(values), count, nccl_f32, nccl_sum, expect_alive(handle_),
                        stream.handle()),
       api_->all_reduce.name);
}

void Communicator::gather(Stream& stream, uint64_t part, uint64_t all, uint64_t count) {
  context_.use();
  call(api_->all_gather(pointer(part), pointer(all), count, nccl_f32, expect_alive(handle_), stream.handle()),
       api_->all_gather.name);
}

void Communicator::send(Stream& stream, uint32_t to, uint64_t values, uint64_t count) {
  context_.use();
  call(api_->send(pointer(values), count, nccl_f32, int(to), expect_alive(handle_), stream.handle()), api_->send.name);
}

void Communicator::receive(Stream& stream, uint32_t from, uint64_t values, uint64_t count) {
  context_.use();
  call(api_->receive(pointer(values), count, nccl_f32, int(from), expect_alive(handle_), stream.handle()),
       api_->receive.name);
}

}  // namespace heddle::cuda
