// Exact search for byte offsets: place each buffer below a capacity so that buffers that are
// live together do not overlap, or prove that there is no such placement.
//
// Time is divided into sections with constant sets of live buffers. Each section has a floor (the
// skyline) and a number of remaining bytes. A *niche* is a range of sections with equal floors
// between higher floors: a buffer on the floor is inside the niche. The search selects the section
// of a niche with the fewest candidates and branches: a candidate is placed on the floor, or the
// floor is raised to the lowest height at which a buffer can still be placed. Only bottom-justified
// placements are tried, to which each placement can be moved, so the search is complete.
//
// The search is fast for these reasons: a section with a floor and remaining bytes above the
// capacity ends a branch; parts without common sections are searched separately; failed skylines
// are stored, also across restarts; restarts change the order of candidates and prefer sections in
// which branches ended. Equal inputs give equal answers, except for time limits. Parallel searches
// have different seeds and therefore different restarts.
//
// stdin: count capacity seconds nodes searches, then lower upper size of each buffer.
// stdout: "found" and the offsets, "impossible", or "stopped".
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Bytes = std::int64_t;
using Indices = std::vector<int>;
constexpr Bytes kNever = std::numeric_limits<Bytes>::max();

struct Buffer {
  Bytes lower, upper, size;
  int first = 0, last = 0;  // Sections, half-open.
};

// SplitMix64: equal numbers on all machines.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

// 128-bit signatures of failed states; a new signature replaces the signature in its slot.
class Failures {
 public:
  struct Key {
    std::uint64_t a = 0, b = 0;
    bool operator==(const Key& other) const { return a == other.a && b == other.b; }
  };
  bool holds(const Key& key) const { return slots_[key.a & kMask] == key; }
  void add(const Key& key) { slots_[key.a & kMask] = key; }

 private:
  static constexpr std::uint64_t kMask = (1u << 21) - 1;
  std::vector<Key> slots_ = std::vector<Key>(kMask + 1);
};

enum class Result { kFound, kImpossible, kStopped };

class Search {
 public:
  Search(std::vector<Buffer> buffers, Bytes capacity, double seconds, std::uint64_t nodes,
         std::uint64_t seed)
      : buffers_(std::move(buffers)),
        capacity_(capacity),
        total_nodes_(nodes),
        deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(seconds))),
        random_(seed) {
    cut_sections();
    offsets_.resize(buffers_.size());
    ranks_.resize(buffers_.size());
    for (std::size_t i = 0; i < buffers_.size() + sections_; ++i) {
      keys_.push_back({random_.next(), random_.next()});
    }
  }

  const std::vector<Bytes>& offsets() const { return offsets_; }

  // Run until there is an answer, a limit is reached, or `stop` is set.
  Result run(const std::atomic<bool>& stop) {
    stop_ = &stop;
    activity_.assign(sections_, 0.0);
    double budget = 1000;
    for (int round = 0;; ++round) {
      if (round && round % 3 == 0) budget *= 1.05;
      order_candidates(round);
      floor_.assign(sections_, 0);
      rest_ = totals_;
      round_end_ = nodes_ + static_cast<std::uint64_t>(budget);
      Indices all(buffers_.size());
      std::iota(all.begin(), all.end(), 0);
      const Result result = solve_parts(all);
      if (result != Result::kStopped || ended_) return result;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Keep sections in which a start is followed by an end; they contain all buffers of the rest.
  void cut_sections() {
    std::vector<Bytes> births, cuts;
    std::vector<std::pair<Bytes, int>> events;
    for (const Buffer& b : buffers_) {
      events.push_back({b.lower, 1});
      events.push_back({b.upper, 0});
    }
    std::sort(events.begin(), events.end());
    Bytes birth = -1;
    bool grew = false;
    for (const auto& [time, is_birth] : events) {
      if (is_birth) {
        birth = time;
        grew = true;
      } else if (grew) {
        cuts.push_back(birth);
        grew = false;
      }
    }
    sections_ = cuts.size();
    totals_.assign(sections_, 0);
    const auto index = [&](Bytes time) {
      return static_cast<int>(std::lower_bound(cuts.begin(), cuts.end(), time) - cuts.begin());
    };
    for (Buffer& b : buffers_) {
      b.first = index(b.lower);
      b.last = index(b.upper);
      for (int s = b.first; s < b.last; ++s) totals_[s] += b.size;
    }
  }

  // Sort by tightness of sections, then by area or duration. Later rounds add noise, and each
  // second group of rounds treats sections in which branches ended as tighter.
  void order_candidates(int round) {
    const bool noisy = round >= 3, adaptive = noisy && round / 3 % 2 == 0;
    const double most = *std::max_element(activity_.begin(), activity_.end()) + 1;
    const double weight = adaptive ? std::exp(random_.uniform(-3.5, 1)) : 0;
    std::vector<std::array<double, 3>> keys;
    for (const Buffer& b : buffers_) {
      double tight = 0;
      for (int s = b.first; s < b.last; ++s) {
        const double load = static_cast<double>(totals_[s]) / static_cast<double>(capacity_);
        tight = std::max(tight, load + weight * activity_[s] / most);
      }
      const double noise = noisy ? std::exp(random_.uniform(-0.3, 0.3)) : 1;
      const double length = static_cast<double>(b.upper - b.lower) * noise;
      const double area = length * static_cast<double>(b.size);
      switch (round % 3) {
        case 0: keys.push_back({-length, -area, -tight}); break;
        case 1: keys.push_back({-tight, -area, -length}); break;
        default: keys.push_back({-tight, -length, -area}); break;
      }
    }
    Indices order(buffers_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
    });
    for (std::size_t i = 0; i < order.size(); ++i) ranks_[order[i]] = static_cast<int>(i);
  }

  // Solve parts without common sections, the smallest first. Floors are undefined on failure.
  Result solve_parts(Indices open) {
    std::sort(open.begin(), open.end(), [&](int a, int b) {
      return buffers_[a].first != buffers_[b].first ? buffers_[a].first < buffers_[b].first : a < b;
    });
    std::vector<Indices> parts;
    int end = -1;
    for (int j : open) {
      if (parts.empty() || buffers_[j].first >= end) parts.emplace_back();
      parts.back().push_back(j);
      end = std::max(end, buffers_[j].last);
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Indices& a, const Indices& b) { return a.size() < b.size(); });
    for (const Indices& part : parts) {
      const Result result = solve(part);
      if (result != Result::kFound) return result;
    }
    return Result::kFound;
  }

  Result solve(const Indices& open) {
    int first = buffers_[open[0]].first, last = 0;
    for (int j : open) last = std::max(last, buffers_[j].last);
    Failures::Key key{1, 1};
    for (int j : open) mix(key, j, 1);
    for (int s = first; s < last; ++s) mix(key, buffers_.size() + s, floor_[s] + 1);
    key.a ^= key.a >> 32;
    if (failures_.holds(key)) return Result::kImpossible;
    const Result result = branch(open, first, last);
    if (result == Result::kImpossible) failures_.add(key);
    return result;
  }

  void mix(Failures::Key& key, std::size_t what, Bytes count) const {
    key.a += (keys_[what].a | 1) * static_cast<std::uint64_t>(count);
    key.b += (keys_[what].b | 1) * static_cast<std::uint64_t>(count);
  }

  Result branch(const Indices& open, int first, int last) {
    if (++nodes_ >= total_nodes_ || stop_->load(std::memory_order_relaxed) ||
        Clock::now() > deadline_)
      ended_ = true;
    if (ended_ || nodes_ > round_end_) return Result::kStopped;
    // The lowest possible offset of each buffer, and the minimum of these in each section.
    std::vector<Bytes> heights(open.size()), lowest(last - first, kNever);
    Indices standing(last - first, 0);
    for (std::size_t q = 0; q < open.size(); ++q) {
      const Buffer& b = buffers_[open[q]];
      const auto begin = floor_.begin();
      heights[q] = *std::max_element(begin + b.first, begin + b.last);
      if (heights[q] + b.size > capacity_) {
        for (int s = b.first; s < b.last; ++s) activity_[s] += 1;
        return Result::kImpossible;
      }
      for (int s = b.first; s < b.last; ++s) {
        lowest[s - first] = std::min(lowest[s - first], heights[q]);
        standing[s - first] += heights[q] == floor_[s];
      }
    }
    for (int s = first; s < last; ++s) {
      if (lowest[s - first] + rest_[s] > capacity_) {
        activity_[s] += 1;
        return Result::kImpossible;
      }
    }
    const int at = tightest_niche(first, last, standing);
    const Bytes floor = floor_[at];
    const auto covers = [&](int j) { return buffers_[j].first <= at && at < buffers_[j].last; };
    std::vector<std::pair<int, int>> candidates;
    for (std::size_t q = 0; q < open.size(); ++q) {
      if (heights[q] == floor && covers(open[q])) candidates.push_back({ranks_[open[q]], open[q]});
    }
    std::sort(candidates.begin(), candidates.end());
    const std::vector<Bytes> floors(floor_.begin() + first, floor_.begin() + last);
    const std::vector<Bytes> rests(rest_.begin() + first, rest_.begin() + last);
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const int j = candidates[c].second;
      const bool twin = std::any_of(candidates.begin(), candidates.begin() + c, [&](auto& other) {
        const Buffer &a = buffers_[j], &b = buffers_[other.second];
        return a.first == b.first && a.last == b.last && a.size == b.size;
      });
      if (twin) continue;
      if (place(j, floor)) {
        Indices others;
        others.reserve(open.size());
        for (int k : open) {
          if (k != j) others.push_back(k);
        }
        const Result result = solve_parts(std::move(others));
        if (result != Result::kImpossible) return result;
      }
      std::copy(floors.begin(), floors.end(), floor_.begin() + first);
      std::copy(rests.begin(), rests.end(), rest_.begin() + first);
    }
    const Bytes next = next_floor(open, heights, at);
    if (next == kNever || next + rest_[at] > capacity_) {
      activity_[at] += 1;
      return Result::kImpossible;
    }
    floor_[at] = next;
    const Result result = solve(open);
    // The inner search can have changed the floors.
    if (result == Result::kImpossible) {
      std::copy(floors.begin(), floors.end(), floor_.begin() + first);
      std::copy(rests.begin(), rests.end(), rest_.begin() + first);
    }
    return result;
  }

  // Return the section of a niche with the fewest candidates.
  int tightest_niche(int first, int last, const Indices& standing) const {
    int best = -1;
    double fewest = 0;
    for (int s = first; s < last;) {
      int end = s;
      while (end < last && floor_[end] == floor_[s]) ++end;
      const bool niche = (s == first || floor_[s - 1] > floor_[s]) &&
                         (end == last || floor_[end] > floor_[s]);
      for (int i = s; niche && i < end; ++i) {
        const double ways = standing[i - first] + (floor_[i] + rest_[i] < capacity_) -
                            1e-9 * activity_[i];
        if (best < 0 || ways < fewest) {
          best = i;
          fewest = ways;
        }
      }
      s = end;
    }
    return best;
  }

  // Place buffer `j` at `offset`; return whether its sections still fit below the capacity.
  bool place(int j, Bytes offset) {
    const Buffer& b = buffers_[j];
    offsets_[j] = offset;
    bool fits = true;
    for (int s = b.first; s < b.last; ++s) {
      floor_[s] = offset + b.size;
      rest_[s] -= b.size;
      if (rest_[s] && floor_[s] + rest_[s] > capacity_) {
        fits = false;
        activity_[s] += 1;
      }
    }
    return fits;
  }

  // Return the next floor of section `at` if the floor remains empty: on a placed buffer, or on a
  // remaining buffer of an adjacent section.
  Bytes next_floor(const Indices& open, const std::vector<Bytes>& heights, int at) const {
    Bytes next = kNever;
    for (std::size_t q = 0; q < open.size(); ++q) {
      const Buffer& b = buffers_[open[q]];
      if (at < b.first || b.last <= at) continue;
      if (heights[q] > floor_[at]) {
        next = std::min(next, heights[q]);
        continue;
      }
      for (std::size_t p = 0; p < open.size(); ++p) {
        const Buffer& other = buffers_[open[p]];
        const bool below = other.first < b.last && b.first < other.last &&
                           (at < other.first || other.last <= at);
        if (below) next = std::min(next, heights[p] + other.size);
      }
    }
    return next;
  }

  std::vector<Buffer> buffers_;
  Bytes capacity_;
  std::uint64_t nodes_ = 0, round_end_ = 0, total_nodes_;
  Clock::time_point deadline_;
  bool ended_ = false;
  const std::atomic<bool>* stop_ = nullptr;
  std::size_t sections_ = 0;
  std::vector<Bytes> totals_, floor_, rest_, offsets_;
  std::vector<double> activity_;
  Indices ranks_;
  std::vector<Failures::Key> keys_;
  Random random_;
  Failures failures_;
};

}  // namespace

int main() {
  std::size_t count = 0, searches = 0;
  Bytes capacity = 0;
  double seconds = 0;
  std::uint64_t nodes = 0;
  if (std::scanf("%zu %ld %lf %lu %zu", &count, &capacity, &seconds, &nodes, &searches) != 5)
    return 1;
  std::vector<Buffer> buffers(count);
  for (Buffer& b : buffers) {
    if (std::scanf("%ld %ld %ld", &b.lower, &b.upper, &b.size) != 3) return 1;
  }
  std::vector<Search> all;
  for (std::size_t i = 0; i < searches; ++i) {
    all.emplace_back(buffers, capacity, seconds, nodes, i + 1);
  }
  std::atomic<bool> stop{false};
  std::mutex mutex;
  Result result = Result::kStopped;
  std::size_t first = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < searches; ++i) {
    threads.emplace_back([&, i] {
      const Result own = all[i].run(stop);
      const std::lock_guard<std::mutex> lock(mutex);
      if (own == Result::kStopped || result != Result::kStopped) return;
      result = own;
      first = i;
      stop = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (result != Result::kFound) {
    std::puts(result == Result::kStopped ? "stopped" : "impossible");
    return 0;
  }
  std::puts("found");
  for (Bytes offset : all[first].offsets()) std::printf("%ld\n", offset);
}
