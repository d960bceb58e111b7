// SPDX-License-Identifier: CC0-1.0
// c++ tasks.cc $(pkg-config --cflags --libs libuserev): C++, with an object that emits its lifetime.
#include <chrono>
#include <string>
#include <utility>

#include <userev.h>

USEREV_EVENT(tasks, done, (f64, seconds), (string, name));

namespace {

class Task {
public:
	explicit Task(std::string name) : name(std::move(name)) {}
	Task(const Task &) = delete;
	Task &operator=(const Task &) = delete;
	~Task()
	{
		userev_emit(tasks_done, seconds(), name.c_str());
	}

private:
	using Clock = std::chrono::steady_clock;

	double seconds() const
	{
		return std::chrono::duration<double>(Clock::now() - begun).count();
	}

	std::string name;
	Clock::time_point begun = Clock::now();
};

} // namespace

int main()
{
	for (int i = 1; i <= 3; i++)
		Task task("task " + std::to_string(i));
	return 0;
}
