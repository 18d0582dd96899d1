// Probes of asynchronous copies and the barriers they report to.
#include "tests/ptx/instructions/instructions.h"

namespace heddle::ptx::instructions {
namespace {

Mbarrier bar(Stage& s) { return {s.shared_at<uint64_t>().offset(2)}; }
Mbarrier::Remote remote(Stage& s) { return {s.cluster_at<uint64_t>()}; }

template <uint8_t Bytes>
void copies_async(Probes& all) {
  all.push_back([](Stage& s) { copy_async<Bytes>(s.shared_at<float>(), s.global<float>()); });
  all.push_back([](Stage& s) { copy_async<Bytes>(s.shared_at<float>(), s.global<float>(), s.value<uint32_t>()); });
}

void barriers(Probes& all) {
  all.push_back([](Stage& s) { bar(s).init(1u); });
  all.push_back([](Stage& s) { bar(s).invalidate(); });
  all.push_back([](Stage& s) { bar(s).arrive(); });
  all.push_back([](Stage& s) { bar(s).arrive(s.value<uint32_t>()); });
  all.push_back([](Stage& s) {
    bar(s).arrive();
    s.last().dst = {s.reg(Type::u64)};
  });
  all.push_back([](Stage& s) { bar(s).expect_bytes(s.value<uint32_t>()); });
  all.push_back([](Stage& s) { bar(s).arrive_expect_bytes(s.value<uint32_t>()); });
  all.push_back([](Stage& s) { bar(s).arrive_after_copies(true); });
  all.push_back([](Stage& s) { bar(s).arrive_after_copies(false); });
  all.push_back([](Stage& s) { bar(s).test(s.value<uint32_t>()); });
  all.push_back([](Stage& s) { bar(s).try_wait(s.value<uint32_t>()); });
  all.push_back([](Stage& s) { bar(s).wait(s, s.value<uint32_t>()); });
  all.push_back([](Stage& s) { bar(s).in_block(s.value<uint32_t>()); });
  all.push_back([](Stage& s) { remote(s).arrive(); });
  all.push_back([](Stage& s) { remote(s).arrive_expect_bytes(s.value<uint32_t>()); });
  all.push_back([](Stage& s) { fence_mbarrier_init(s); });
  all.push_back([](Stage& s) { fence_async_shared(s); });
  all.push_back([](Stage& s) { fence_async_global(s); });
  all.push_back([](Stage& s) { fence_async(s); });
}

void bulk(Probes& all) {
  all.push_back([](Stage& s) { bulk_load(s.shared_at<float>(), s.global<float>(), s.value<uint32_t>(), bar(s)); });
  all.push_back([](Stage& s) { bulk_load(s.shared_at<float>(), s.global<float>(), 64u, bar(s), s.value<uint64_t>()); });
  all.push_back([](Stage& s) { bulk_store(s.global<float>(), s.shared_at<float>(), s.value<uint32_t>()); });
  all.push_back(
      [](Stage& s) { bulk_copy(s.cluster_at<float>(), s.shared_at<float>(), s.value<uint32_t>(), remote(s)); });
  all.push_back([](Stage& s) { bulk_commit(s); });
  all.push_back([](Stage& s) { bulk_wait(s, 1); });
  all.push_back([](Stage& s) { bulk_wait(s, 0, true); });
}

template <size_t Rank>
void tensors(Probes& all) {
  all.push_back([](Stage& s) {
    Vec<int32_t, Rank> at;
    for (auto& c : at) c = s.value<int32_t>();
    tensor_load(s.shared_at<float>(), s.value<uint64_t>(), at, bar(s));
  });
  all.push_back([](Stage& s) {
    Vec<int32_t, Rank> at;
    for (auto& c : at) c = s.value<int32_t>();
    tensor_store(s.value<uint64_t>(), s.shared_at<float>(), at);
  });
}

}  // namespace

void add_async(Probes& all) {
  copies_async<4>(all);
  copies_async<8>(all);
  copies_async<16>(all);
  // 16 bytes through L1, which the builder does not choose
  all.push_back([](Stage& s) {
    copy_async<16>(s.shared_at<float>(), s.global<float>());
    s.last().through_l1 = true;
  });
  all.push_back([](Stage& s) { copy_commit(s); });
  all.push_back([](Stage& s) { copy_wait(s, 3); });
  barriers(all);
  bulk(all);
  tensors<1>(all);
  tensors<2>(all);
  tensors<3>(all);
  tensors<4>(all);
  tensors<5>(all);
  all.push_back([](Stage& s) { tensor_prefetch(s.value<uint64_t>()); });
}

}  // namespace heddle::ptx::instructions
