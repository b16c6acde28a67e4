// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0

// Calls functions of a library for a program on another kind of processor, to which all memory belongs: serve_calls LIBRARY.
//
// This program runs in an emulator, its caller beside it; addresses have 64 bits on both sides, and structures the same
// layout. A page that a function touches is fetched from the caller and lies here where it lies there. When the function
// returns, the caller is sent what was written, and the pages are given back. So pointers need no translation, and nobody
// has to know what they point to.
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// In the place of libc's, whose instruction for whole lines (dc zva) qemu 7.2 does not resume properly after a fault.
extern "C" __attribute__((optimize("no-tree-loop-distribute-patterns"))) void* memset(void* to, int value, size_t size) {
  for (size_t i = 0; i < size; ++i) static_cast<char*>(to)[i] = static_cast<char>(value);
  return to;
}

namespace {
constexpr size_t kPage = 4096, kMost = 1 << 16;  // pages of one call

enum Kind : uint64_t { WANTED, WRITTEN, RETURNED };

struct Message {  // to the caller
  Kind kind;
  uint64_t value;  // an address, or what a function returned
  uint64_t size;   // bytes that follow
};

struct Call {
  char name[32];
  uint64_t arguments[10];
};

struct Page {
  char* here;
  char before[kPage];  // as the caller has it
};

Page* pages;
size_t page_count = 0;
std::atomic_flag busy = ATOMIC_FLAG_INIT;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "serve_calls: %s\n", what);
  _exit(1);
}

bool receive(void* to, size_t size) {
  for (char* next = static_cast<char*>(to); size > 0;) {
    const ssize_t got = read(0, next, size);
    if (got <= 0) return false;
    next += got;
    size -= got;
  }
  return true;
}

void send(const void* from, size_t size) {
  for (const char* next = static_cast<const char*>(from); size > 0;) {
    const ssize_t sent = write(1, next, size);
    if (sent <= 0) fail("nobody listens");
    next += sent;
    size -= sent;
  }
}

bool is_here(const char* page) {
  for (size_t i = 0; i < page_count; ++i)
    if (pages[i].here == page) return true;
  return false;
}

void fetch(char* page) {
  if (page_count == kMost) fail("one call touches too many pages");
  const Message wanted{WANTED, reinterpret_cast<uint64_t>(page), 0};
  send(&wanted, sizeof(wanted));
  Page& slot = pages[page_count];
  if (!receive(slot.before, kPage)) _exit(0);
  // elsewhere first: another thread must not see half of it
  void* filled = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (filled == MAP_FAILED) fail("no memory");
  std::memcpy(filled, slot.before, kPage);
  if (mremap(filled, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, page) != page) fail("a page cannot lie where it has to");
  slot.here = page;
  ++page_count;
}

// Of SIGSEGV.
void handle_fault(int, siginfo_t* info, void*) {
  if (info->si_code != SEGV_MAPERR) fail("a function writes where it may only read");
  char* const page = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(info->si_addr) / kPage * kPage);
  while (busy.test_and_set(std::memory_order_acquire)) {
  }
  if (!is_here(page)) fetch(page);
  busy.clear(std::memory_order_release);
}

bool differs(const Page& page, size_t at) { return std::memcmp(page.here + at, page.before + at, sizeof(uint64_t)) != 0; }

// Sends what was written to a page, in whole words: whoever owns one of its bytes owns the word.
void send_written(const Page& page) {
  for (size_t first = 0, end; first < kPage; first = end) {
    end = first + sizeof(uint64_t);
    if (!differs(page, first)) continue;
    while (end < kPage && differs(page, end)) end += sizeof(uint64_t);
    const Message written{WRITTEN, reinterpret_cast<uint64_t>(page.here + first), end - first};
    send(&written, sizeof(written));
    send(page.here + first, end - first);
  }
}

void serve(const Call& call) {
  using Function = uint64_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                uint64_t);
  const auto function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, call.name));
  if (!function) fail(call.name);
  const uint64_t* a = call.arguments;
  const uint64_t result = function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]);
  for (size_t i = 0; i < page_count; ++i) {
    send_written(pages[i]);
    munmap(pages[i].here, kPage);
  }
  page_count = 0;
  const Message returned{RETURNED, result, 0};
  send(&returned, sizeof(returned));
}
}  // namespace

int main(int, char** arguments) {
  if (!dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL)) fail(dlerror());
  void* const room = mmap(nullptr, kMost * sizeof(Page), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) fail("no memory");
  pages = static_cast<Page*>(room);
  struct sigaction action {};
  action.sa_sigaction = handle_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  for (Call call; receive(&call, sizeof(call));) serve(call);
}
