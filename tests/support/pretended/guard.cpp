// What a build of torch without CUDA lacks for autograd, autocast and optimisers to run
// on tensors that say they lie on a GPU: a guard that guards nothing, and hooks that say
// there is one device.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

using namespace c10;

namespace {

const Device kOnly(DeviceType::CUDA, 0);
const Stream kStream(Stream::DEFAULT, kOnly);

struct Guard final : public impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device) const override { return kOnly; }
  Device getDevice() const override { return kOnly; }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const noexcept override { return kStream; }
  Stream getDefaultStream(Device) const override { return kStream; }
  Stream exchangeStream(Stream) const noexcept override { return kStream; }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
};

struct CUDAHooks final : public at::CUDAHooksInterface {
  CUDAHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  int getNumGPUs() const override { return 1; }
};

}  // namespace

namespace at {
REGISTER_CUDA_HOOKS(CUDAHooks)
}

extern "C" void install() {
  const auto place = static_cast<size_t>(DeviceType::CUDA);
  impl::device_guard_impl_registry[place].store(new Guard());
}
