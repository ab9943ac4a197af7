# linformerd. `make help` lists the targets.
CC      ?= gcc
BUILD   ?= build
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla
PKGS    := libmicrohttpd jansson
override CFLAGS += -std=gnu11 $(WARN) -fopenmp -pthread -I. $(shell pkg-config --cflags $(PKGS))
LDLIBS  := $(shell pkg-config --libs $(PKGS)) -lm -ldl

SOURCES := $(filter-out server/main.c,$(wildcard config/*.c weights/*.c engine/*.c engine/*/*.c server/*.c))
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o) 

all: $(BUILD)/linformerd

$(BUILD)/linformerd: $(BUILD)/server/main.o $(OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all clean
