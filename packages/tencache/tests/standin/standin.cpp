// An asynchronous device on the CPU, for tests: PyTorch's PrivateUse1 backend with streams, events and its own memory.
//
// Nothing runs when it is asked for. Work is put on a stream, and is done late: when somebody waits for it, or at random.
// It runs in any order that streams and event waits allow, so a fence that is missing shows as wrong bytes. Work holds
// addresses, not tensors: memory that is freed too early is overwritten under it, as on a GPU. Time is virtual: a copy
// takes bytes / link speed, a kernel a fixed time, and events note the time of their stream.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>
#include <torch/library.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
const c10::Device kDevice(kType, 0);

// ---- The scheduler -------------------------------------------------------------------------------------------------

struct Mark {  // one recording of an event
  int64_t stream;
  bool done = false;
  double time_s = 0;
};

struct Task {
  std::function<void()> work;         // empty for marks and waits
  std::shared_ptr<Mark> records;      // this task is the recording of an event
  std::shared_ptr<Mark> waits;        // this task waits for one
  double seconds = 0;
  double issued_s = 0;
  const char* host = nullptr;         // host memory that an asynchronous copy reads or writes
  size_t host_bytes = 0;
};

struct Queue {
  std::deque<Task> tasks;
  double clock_s = 0;
};

struct Settings {
  double eagerness = 0.2;             // how often work is done without anybody waiting for it
  double kernel_s = 1e-4;
  double bytes_per_s_up = 1e9, bytes_per_s_down = 1e9;
};

struct Block {
  size_t size;
  int64_t stream;
  std::set<int64_t> others;           // streams told of by record_stream
};

class Machine {
 public:
  static Machine& get() {
    static Machine* machine = new Machine;  // never destroyed: tensors may outlive everything
    return *machine;
  }

  int64_t new_stream() {
    std::lock_guard<std::mutex> lock(mutex_);
    queues_.emplace_back();
    return static_cast<int64_t>(queues_.size()) - 1;
  }

  void enqueue(int64_t stream, Task task) {
    std::lock_guard<std::mutex> lock(mutex_);
    put(stream, std::move(task));
    dawdle();
  }

  std::shared_ptr<Mark> record(int64_t stream) {
    auto mark = std::make_shared<Mark>();
    mark->stream = stream;
    Task task;
    task.records = mark;
    enqueue(stream, std::move(task));
    return mark;
  }

  void wait(int64_t stream, std::shared_ptr<Mark> mark) {
    Task task;
    task.waits = std::move(mark);
    enqueue(stream, std::move(task));
  }

  bool query(const std::shared_ptr<Mark>& mark) {
    std::lock_guard<std::mutex> lock(mutex_);
    dawdle();
    return mark->done;
  }

  void synchronize(const std::shared_ptr<Mark>& mark) {
    std::lock_guard<std::mutex> lock(mutex_);
    synchronizations_ += 1;
    finish(mark);
  }

  void synchronize_stream(int64_t stream) { synchronize(record(stream)); }

  void synchronize_all() {
    int64_t count;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      count = static_cast<int64_t>(queues_.size());
    }
    for (int64_t stream = 0; stream < count; stream++) synchronize_stream(stream);
  }

  bool idle(int64_t stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    dawdle();
    return queues_[stream].tasks.empty();
  }

  // Memory.

  void* allocate(size_t bytes, int64_t stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    const size_t size = (std::max<size_t>(bytes, 1) + 511) / 512 * 512;
    reclaim();
    auto& free = free_[{stream, size}];
    void* address = nullptr;
    if (!free.empty()) {
      address = free.back();  // the last freed first: what is still being read is overwritten soon
      free.pop_back();
    } else {
      TORCH_CHECK(posix_memalign(&address, 4096, size) == 0, "no memory for the stand-in");
      memset(address, 0xFF, size);
    }
    blocks_[address] = Block{size, stream, {}};
    return address;
  }

  void release(void* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = blocks_.find(address);
    if (found == blocks_.end()) return;
    Block block = found->second;
    blocks_.erase(found);
    if (block.others.empty()) {
      recycle(address, block);
      return;
    }
    std::vector<std::shared_ptr<Mark>> marks;
    for (int64_t stream : block.others) {
      auto mark = std::make_shared<Mark>();
      mark->stream = stream;
      Task task;
      task.records = mark;
      put(stream, std::move(task));
      marks.push_back(mark);
    }
    limbo_.push_back({address, block, marks});
  }

  void record_stream(void* address, int64_t stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = blocks_.find(address);
    if (found != blocks_.end() && found->second.stream != stream) found->second.others.insert(stream);
  }

  // Host memory.

  void register_host(const char* begin, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    registered_[begin] = bytes;
  }

  void unregister_host(const char* begin) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = registered_.find(begin);
    if (found == registered_.end()) {
      fault("host memory was unregistered that was not registered");
      return;
    }
    const char* end = begin + found->second;
    for (const auto& queue : queues_)
      for (const auto& task : queue.tasks)
        if (task.host != nullptr && task.host < end && begin < task.host + task.host_bytes)
          fault("host memory was unregistered while a copy of it was on its way");
    registered_.erase(found);
  }

  bool is_registered(const void* pointer, size_t bytes = 1) {
    std::lock_guard<std::mutex> lock(mutex_);
    return covered(static_cast<const char*>(pointer), bytes);
  }

  // What tests ask and set.

  void configure(uint64_t seed, double eagerness, double kernel_s, double up, double down) {
    std::lock_guard<std::mutex> lock(mutex_);
    random_.seed(seed);
    settings = Settings{eagerness, kernel_s, up, down};
    faults_.clear();
    synchronizations_ = slow_copies_ = 0;
  }

  std::vector<std::string> faults() {
    std::lock_guard<std::mutex> lock(mutex_);
    return faults_;
  }

  int64_t synchronizations() { return synchronizations_; }
  int64_t slow_copies() { return slow_copies_; }
  int64_t pending() {
    std::lock_guard<std::mutex> lock(mutex_);
    int64_t count = 0;
    for (const auto& queue : queues_) count += static_cast<int64_t>(queue.tasks.size());
    return count;
  }
  int64_t used_bytes() {
    std::lock_guard<std::mutex> lock(mutex_);
    int64_t sum = 0;
    for (const auto& entry : blocks_) sum += static_cast<int64_t>(entry.second.size);
    return sum;
  }
  void count_slow_copy() { slow_copies_ += 1; }

  Settings settings;

 private:
  struct Limbo {
    void* address;
    Block block;
    std::vector<std::shared_ptr<Mark>> marks;
  };

  Machine() : random_(1), worker_([this] { serve(); }) {
    queues_.emplace_back();  // the default stream
    worker_.detach();
  }

  void put(int64_t stream, Task task) {
    task.issued_s = host_s_;
    queues_[stream].tasks.push_back(std::move(task));
  }

  bool covered(const char* begin, size_t bytes) {
    auto after = registered_.upper_bound(begin);
    if (after == registered_.begin()) return false;
    --after;
    return begin + bytes <= after->first + after->second;
  }

  bool runnable(const Queue& queue) {
    return !queue.tasks.empty() && (!queue.tasks.front().waits || queue.tasks.front().waits->done);
  }

  // Do some work at random, or none.
  void dawdle() {
    while (std::uniform_real_distribution<>(0, 1)(random_) < settings.eagerness) {
      std::vector<size_t> ready;
      for (size_t index = 0; index < queues_.size(); index++)
        if (runnable(queues_[index])) ready.push_back(index);
      if (ready.empty()) return;
      run_head(queues_[ready[random_() % ready.size()]]);
    }
  }

  // Do what a mark needs, and as little else as possible.
  void finish(const std::shared_ptr<Mark>& mark) {
    while (!mark->done) {
      int64_t stream = mark->stream;
      while (!runnable(queues_[stream])) {
        TORCH_CHECK(!queues_[stream].tasks.empty(), "the stand-in waits for what was never asked for");
        stream = queues_[stream].tasks.front().waits->stream;
      }
      run_head(queues_[stream]);
    }
    host_s_ = std::max(host_s_, mark->time_s);
  }

  void run_head(Queue& queue) {
    Task task = std::move(queue.tasks.front());
    queue.tasks.pop_front();
    queue.clock_s = std::max(queue.clock_s, task.issued_s);
    if (task.waits) queue.clock_s = std::max(queue.clock_s, task.waits->time_s);
    if (task.host != nullptr && !covered(task.host, task.host_bytes))
      fault("a copy met host memory that is not registered any more");
    else if (task.work)
      on_worker(task.work);
    queue.clock_s += task.seconds;
    if (task.records) {
      task.records->time_s = queue.clock_s;
      task.records->done = true;
    }
  }

  // On a thread of its own, which no autograd mode, autocast or guard of the caller's reaches.
  void on_worker(const std::function<void()>& work) {
    std::packaged_task<void()> packaged(work);
    auto result = packaged.get_future();
    {
      std::lock_guard<std::mutex> lock(handover_);
      todo_ = &packaged;
    }
    given_.notify_one();
    try {
      result.get();
    } catch (const std::exception& error) {
      fault(std::string("a kernel failed: ") + error.what());
    }
  }

  void serve() {
    at::set_num_threads(1);
    at::AutoDispatchBelowADInplaceOrView below;
    while (true) {
      std::unique_lock<std::mutex> lock(handover_);
      given_.wait(lock, [this] { return todo_ != nullptr; });
      auto* work = std::exchange(todo_, nullptr);
      lock.unlock();
      (*work)();
    }
  }

  void recycle(void* address, const Block& block) {
    Task poison;
    poison.work = [address, size = block.size] { memset(address, 0xFF, size); };
    put(block.stream, std::move(poison));
    free_[{block.stream, block.size}].push_back(address);
  }

  void reclaim() {
    for (auto entry = limbo_.begin(); entry != limbo_.end();) {
      bool over = true;
      for (const auto& mark : entry->marks) over = over && mark->done;
      if (over) {
        recycle(entry->address, entry->block);
        entry = limbo_.erase(entry);
      } else {
        ++entry;
      }
    }
  }

  void fault(const std::string& text) { faults_.push_back(text); }

  std::mutex mutex_;
  std::mutex handover_;
  std::condition_variable given_;
  std::packaged_task<void()>* todo_ = nullptr;
  std::deque<Queue> queues_;
  std::map<void*, Block> blocks_;
  std::map<std::pair<int64_t, size_t>, std::vector<void*>> free_;
  std::vector<Limbo> limbo_;
  std::map<const char*, size_t> registered_;
  std::vector<std::string> faults_;
  std::atomic<int64_t> synchronizations_{0}, slow_copies_{0};
  double host_s_ = 0;
  std::mt19937_64 random_;
  std::thread worker_;
};

thread_local int64_t current_stream = 0;

// ---- What torch asks of a device -----------------------------------------------------------------------------------

struct Event {
  std::shared_ptr<Mark> mark;
  bool timed = false;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  static c10::Stream stream_of(int64_t id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }
  c10::Stream getStream(c10::Device) const override { return stream_of(current_stream); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream_of(Machine::get().new_stream()); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream_of(std::exchange(current_stream, stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override { return Machine::get().idle(stream.id()); }
  void synchronizeStream(const c10::Stream& stream) const override { Machine::get().synchronize_stream(stream.id()); }
  void synchronizeDevice(const c10::DeviceIndex) const override { Machine::get().synchronize_all(); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag flag)
      const override {
    if (*event == nullptr) *event = new Event;
    auto* mine = static_cast<Event*>(*event);
    mine->timed = flag == c10::EventFlag::BACKEND_DEFAULT;
    mine->mark = Machine::get().record(stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) Machine::get().wait(stream.id(), static_cast<Event*>(event)->mark);
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || Machine::get().query(static_cast<Event*>(event)->mark);
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) Machine::get().synchronize(static_cast<Event*>(event)->mark);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    auto *one = static_cast<Event*>(first), *two = static_cast<Event*>(second);
    TORCH_CHECK(one != nullptr && two != nullptr && one->timed && two->timed, "the event was not made to take times");
    TORCH_CHECK(one->mark->done && two->mark->done, "the event is not over");
    return (two->mark->time_s - one->mark->time_s) * 1e3;
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    Machine::get().record_stream(data.get(), stream.id());
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* address = Machine::get().allocate(bytes, current_stream);
    return {address, address, &release, kDevice};
  }
  static void release(void* address) { Machine::get().release(address); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};
Memory memory;
REGISTER_ALLOCATOR(kType, &memory);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  bool isPinnedPtr(const void* data) const override { return Machine::get().is_registered(data); }
  c10::Device getDeviceFromPtr(void*) const override { return kDevice; }
};

// ---- Operations ----------------------------------------------------------------------------------------------------

bool on_device(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == kType; }

struct Place {  // a tensor's memory, without keeping it
  void* data;
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype;

  explicit Place(const at::Tensor& tensor)
      : data(tensor.data_ptr()), sizes(tensor.sizes().vec()), strides(tensor.strides().vec()),
        dtype(tensor.scalar_type()) {}
  at::Tensor open() const { return at::from_blob(data, sizes, strides, at::TensorOptions(dtype)); }
};

template <class Change>
c10::IValue map_tensors(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(change(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& one : value.toTensorVector()) list.push_back(change(one));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector())
      list.push_back(one && one->defined() ? std::optional<at::Tensor>(change(*one)) : one);
    return list;
  }
  if (value.isDevice()) return c10::Device(c10::DeviceType::CPU);
  return value;
}

at::Tensor zeros_like_it(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(tensor.scalar_type())).zero_();
}

at::Tensor device_empty(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::detail::empty_strided_generic(
      sizes, strides, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
}

bool reads_data(const c10::OperatorHandle& op) {  // its result's shape, or the result itself, depends on the bytes
  static const std::set<std::string> names = {
      "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::_local_scalar_dense", "aten::repeat_interleave"};
  if (names.count(op.schema().name())) return true;
  for (const auto& result : op.schema().returns())
    if (result.type()->kind() != c10::TypeKind::TensorType && result.type()->kind() != c10::TypeKind::ListType)
      return true;
  return false;
}

void check_devices(const c10::OperatorHandle& op, const c10::IValue& value) {
  map_tensors(value, [&](const at::Tensor& tensor) {
    TORCH_CHECK(
        !tensor.defined() || on_device(tensor) || tensor.dim() == 0,
        "Expected all tensors to be on the same device, but ", op.schema().name(), " is given one on ",
        tensor.device());
    return tensor;
  });
}

// The arguments with addresses in place of the device's tensors; numbers on the host are copied now.
std::vector<std::function<c10::IValue()>> late_arguments(const std::vector<c10::IValue>& arguments) {
  std::vector<std::function<c10::IValue()>> late;
  for (const auto& argument : arguments) {
    std::vector<std::pair<const c10::TensorImpl*, Place>> places;
    const c10::IValue detached = map_tensors(argument, [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return tensor;
      if (!on_device(tensor)) return tensor.clone();
      at::Tensor shape = at::empty({0}, at::TensorOptions(tensor.scalar_type()));
      places.emplace_back(shape.unsafeGetTensorImpl(), Place(tensor));
      return shape;
    });
    late.push_back([detached, places] {
      return map_tensors(detached, [&](const at::Tensor& tensor) {
        for (const auto& [stands_for, place] : places)
          if (stands_for == tensor.unsafeGetTensorImpl()) return place.open();
        return tensor;
      });
    });
  }
  return late;
}

torch::jit::Stack call(
    const c10::OperatorHandle& op, const std::vector<std::function<c10::IValue()>>& arguments) {
  torch::jit::Stack stack;
  for (const auto& argument : arguments) stack.push_back(argument());
  op.callBoxed(&stack);
  return stack;
}

c10::IValue written_argument(
    const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments, const c10::AliasInfo& alias) {
  for (size_t index = 0; index < arguments.size(); index++) {
    const auto* info = op.schema().arguments()[index].alias_info();
    if (info != nullptr && info->isWrite() && info->beforeSets() == alias.beforeSets()) return arguments[index];
  }
  TORCH_CHECK(false, op.schema().name(), ": not known to the stand-in");
}

void run_now(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments, torch::jit::Stack* stack) {
  auto late = late_arguments(arguments);
  torch::jit::Stack results;
  Task task;
  task.work = [&] { results = call(op, late); };
  task.seconds = Machine::get().settings.kernel_s;
  Machine::get().enqueue(current_stream, std::move(task));
  Machine::get().synchronize_stream(current_stream);
  for (auto& result : results)
    stack->push_back(map_tensors(result, [](const at::Tensor& tensor) {
      at::Tensor copy = device_empty(tensor.sizes(), tensor.strides(), tensor.scalar_type());
      Place(copy).open().copy_(tensor);
      return copy;
    }));
}

// An empty tensor given to be written to gets the size that the operation would give it.
void take_shape(const at::Tensor& tensor, const at::Tensor& like) {
  if (tensor.sizes() == like.sizes()) return;
  const at::Tensor made = device_empty(like.sizes(), like.strides(), like.scalar_type());
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(made.storage());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  std::vector<c10::IValue> arguments(stack->end() - count, stack->end());
  stack->erase(stack->end() - count, stack->end());
  for (const auto& argument : arguments) check_devices(op, argument);
  if (reads_data(op)) return run_now(op, std::move(arguments), stack);

  // On zeros, for the shapes of the results: the bytes themselves may not be there yet.
  std::vector<c10::IValue> trial;
  for (const auto& argument : arguments) trial.push_back(map_tensors(argument, zeros_like_it));
  torch::jit::Stack shapes(trial);
  op.callBoxed(&shapes);

  for (size_t index = 0; index < arguments.size(); index++) {
    const auto* alias = op.schema().arguments()[index].alias_info();
    if (alias != nullptr && alias->isWrite() && arguments[index].isTensor())
      take_shape(arguments[index].toTensor(), trial[index].toTensor());
  }

  std::vector<std::vector<Place>> results;  // for each result the places to copy it to, none where it is an argument
  for (size_t index = 0; index < shapes.size(); index++) {
    const auto* alias = op.schema().returns()[index].alias_info();
    results.emplace_back();
    if (alias != nullptr) {
      TORCH_CHECK(alias->isWrite(), op.schema().name(), ": a view that is not known to the stand-in");
      stack->push_back(written_argument(op, arguments, *alias));
      continue;
    }
    stack->push_back(map_tensors(shapes[index], [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return tensor;
      at::Tensor made = device_empty(tensor.sizes(), tensor.strides(), tensor.scalar_type());
      results.back().emplace_back(made);
      return made;
    }));
  }
  Task task;
  task.work = [op, late = late_arguments(arguments), results] {
    torch::jit::Stack made = call(op, late);
    for (size_t index = 0; index < results.size(); index++) {
      size_t place = 0;
      if (!results[index].empty())
        map_tensors(made[index], [&](const at::Tensor& tensor) {
          if (tensor.defined()) results[index][place++].open().copy_(tensor);
          return tensor;
        });
    }
  };
  task.seconds = Machine::get().settings.kernel_s;
  Machine::get().enqueue(current_stream, std::move(task));
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  auto& machine = Machine::get();
  const at::Tensor from = source.sizes() == self.sizes() ? source : source.expand(self.sizes());
  Task task;
  task.work = [to = Place(self), from = Place(from)] { to.open().copy_(from.open()); };
  if (on_device(self) && on_device(source)) {
    task.seconds = machine.settings.kernel_s;
    machine.enqueue(current_stream, std::move(task));
    return self;
  }
  const at::Tensor& host = on_device(self) ? from : self;
  const bool up = on_device(self);
  const size_t bytes = self.numel() == 0 ? 0 : host.numel() * host.element_size();
  task.seconds = static_cast<double>(bytes) / (up ? machine.settings.bytes_per_s_up : machine.settings.bytes_per_s_down);
  const bool plain = host.is_contiguous() && self.scalar_type() == source.scalar_type() &&
      (up ? self : from).is_contiguous();
  // As on CUDA: a copy is asynchronous only to or from pinned memory, and only in one piece.
  const bool registered = bytes != 0 && machine.is_registered(host.data_ptr(), bytes);
  const bool late = non_blocking && registered && plain;
  if (late) {
    task.host = static_cast<const char*>(host.data_ptr());
    task.host_bytes = bytes;
    // Nobody may read it before the copy is over.
    if (!up) memset(host.data_ptr(), 0xFF, bytes);
  } else if (non_blocking && bytes != 0) {
    machine.count_slow_copy();
  }
  machine.enqueue(current_stream, std::move(task));
  if (!late) machine.synchronize_stream(current_stream);
  return self;
}

at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device>,
    std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(
      size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device>, std::optional<bool>) {
  return device_empty(size, stride, c10::dtype_or_default(dtype));
}

at::Scalar local_scalar(const at::Tensor& self) {
  Machine::get().synchronize_stream(current_stream);
  return at::_local_scalar_dense(Place(self).open());
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  Machine::get().record_stream(self.storage().mutable_data(), stream.id());
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) { return at::native::view(self, size); }

at::Tensor& set_storage(
    at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("copy_", &copy_);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("record_stream", &record_stream);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(layer_norm, fp32)
  KERNEL_PRIVATEUSEONE(cross_entropy_loss, fp32)
}

at::Tensor bytes_at(int64_t address, int64_t bytes, py::object owner) {
  auto* kept = new py::object(std::move(owner));
  auto release = [kept](void*) {
    py::gil_scoped_acquire gil;
    delete kept;
  };
  return at::for_blob(reinterpret_cast<void*>(address), {bytes})
      .deleter(release)
      .options(at::TensorOptions(at::kByte).device(kDevice))
      .target_device(kDevice)
      .make_tensor();
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  m.def("configure", [](uint64_t seed, double eagerness, double kernel_s, double up, double down) {
    Machine::get().configure(seed, eagerness, kernel_s, up, down);
  });
  m.def("bytes_at", &bytes_at);
  m.def("register_host", [](int64_t address, int64_t bytes) {
    Machine::get().register_host(reinterpret_cast<const char*>(address), bytes);
  });
  m.def("unregister_host", [](int64_t address) {
    Machine::get().unregister_host(reinterpret_cast<const char*>(address));
  });
  m.def("is_registered", [](int64_t address, int64_t bytes) {
    return Machine::get().is_registered(reinterpret_cast<const void*>(address), bytes);
  });
  m.def("synchronize", [] { Machine::get().synchronize_all(); }, py::call_guard<py::gil_scoped_release>());
  m.def("faults", [] { return Machine::get().faults(); });
  m.def("pending", [] { return Machine::get().pending(); });
  m.def("used_bytes", [] { return Machine::get().used_bytes(); });
  m.def("synchronizations", [] { return Machine::get().synchronizations(); });
  m.def("slow_copies", [] { return Machine::get().slow_copies(); });
}
