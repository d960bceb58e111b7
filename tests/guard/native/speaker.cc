// SPDX-License-Identifier: GPL-2.0-or-later

// As speaker.c: an object for each event, as C++ tracing libraries have them.

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <iostream>
#include <memory>
#include <string>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <thread>
#include <vector>

namespace
{

struct __attribute__((packed)) user_reg {
	uint32_t size;
	uint8_t enable_bit, enable_size;
	uint16_t flags;
	uint64_t enable_addr, name_args;
	uint32_t write_index;
};

class Event {
public:
	Event(int file, const std::string &name) : file_(file)
	{
		const std::string description = name + " u32 number";

		reg_ = { sizeof(reg_), 0, sizeof(enabled_), 0, reinterpret_cast<uintptr_t>(&enabled_),
			 reinterpret_cast<uintptr_t>(description.c_str()), 0 };
		if (ioctl(file_, 0xC0082A00UL, &reg_) < 0)
			std::cout << name << ": error " << errno << std::endl;
		else
			std::cout << name << ": registered" << std::endl;
	}

	void write(uint32_t number)
	{
		uint32_t index = reg_.write_index;
		const iovec parts[] = { { &index, 4 }, { &number, 4 } };

		if (*const_cast<volatile uint32_t *>(&enabled_) & 1 && writev(file_, parts, 2) < 0)
			std::cout << "writev: error " << errno << std::endl;
	}

private:
	int file_;
	uint32_t enabled_ = 0;
	user_reg reg_;
};

} // namespace

int main(int argc, char **argv)
{
	const int file = open("/sys/kernel/tracing/user_events_data", O_WRONLY);
	std::vector<std::unique_ptr<Event>> events;

	if (file < 0) {
		std::cout << "open: error " << errno << std::endl;
		return 1;
	}
	for (int i = 1; i < argc; i++)
		events.push_back(std::make_unique<Event>(file, argv[i]));
	for (uint32_t number = 0;; number++) {
		for (auto &event : events)
			event->write(number);
		std::this_thread::sleep_for(std::chrono::milliseconds(100));
	}
}
