//go:build cgo && linux

package hardware

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

// The few calls of CUDA's driver API that a load needs, by their names there.
static int (*init)(unsigned), (*device)(int *, int), (*context)(void **, unsigned, int), (*drop)(void *), (*load)(void **, const void *);
static int (*function)(void **, void *, const char *), (*alloc)(uint64_t *, size_t), (*sync)(void);
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static void *ctx;

// cuda_open makes a context on a GPU: 0, a code of CUDA, or -1 with no library.
static int cuda_open(int index) {
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int dev, code;
	if (!lib) return -1;
	*(void **)&init = dlsym(lib, "cuInit");
	*(void **)&device = dlsym(lib, "cuDeviceGet");
	*(void **)&context = dlsym(lib, "cuCtxCreate_v2");
	*(void **)&drop = dlsym(lib, "cuCtxDestroy_v2");
	*(void **)&load = dlsym(lib, "cuModuleLoadData");
	*(void **)&function = dlsym(lib, "cuModuleGetFunction");
	*(void **)&alloc = dlsym(lib, "cuMemAlloc_v2");
	*(void **)&sync = dlsym(lib, "cuCtxSynchronize");
	*(void **)&launch = dlsym(lib, "cuLaunchKernel");
	if (!init || !device || !context || !drop || !load || !function || !alloc || !sync || !launch) return -1;
	if ((code = init(0)) || (code = device(&dev, index))) return code;
	return context(&ctx, 0, dev);
}
static void cuda_close(void) { drop(ctx); }
static int cuda_alloc(uint64_t size, uint64_t *at) { return alloc(at, size); }

// cuda_run launches a kernel of the PTX text and waits for its end.
static int cuda_run(const char *ptx, const char *name, unsigned blocks, unsigned threads, uint64_t a, uint64_t b) {
	void *module, *f, *args[] = {&a, &b};
	int code = load(&module, ptx);
	if (!code) code = function(&f, module, name);
	if (!code) code = launch(f, blocks, 1, 1, threads, 1, 1, 0, NULL, args, NULL);
	return code ? code : sync();
}
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

// kernels are a load for the tensor cores that lasts as many nanoseconds as it
// is told, and a write to an address that is not mapped, which the driver reports
// as Xid 31.
const kernels = `.version 7.0
.target sm_80
.address_size 64
.visible .entry busy(.param .u64 nanos, .param .u64 out)
{
	.reg .pred %p<2>;
	.reg .b32 %r<10>;
	.reg .f32 %f<6>;
	.reg .u64 %rd<8>;
	ld.param.u64 %rd1, [nanos];
	ld.param.u64 %rd5, [out];
	mov.u64 %rd2, %globaltimer;
	mov.u32 %r7, %tid.x;
	mov.u32 %r1, %r7;
	mov.u32 %r2, %r7;
	mov.u32 %r3, %r7;
	mov.u32 %r4, %r7;
	mov.u32 %r5, %r7;
	mov.u32 %r6, %r7;
	mov.f32 %f1, 0f00000000;
	mov.f32 %f2, 0f00000000;
	mov.f32 %f3, 0f00000000;
	mov.f32 %f4, 0f00000000;
AGAIN:
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};
	mov.u64 %rd3, %globaltimer;
	sub.u64 %rd4, %rd3, %rd2;
	setp.lt.u64 %p1, %rd4, %rd1;
	@%p1 bra AGAIN;
	mul.wide.u32 %rd6, %r7, 4;
	add.u64 %rd7, %rd5, %rd6;
	st.global.f32 [%rd7], %f1;
	ret;
}
.visible .entry fault(.param .u64 at, .param .u64 unused)
{
	.reg .b32 %r<2>;
	.reg .u64 %rd<2>;
	ld.param.u64 %rd1, [at];
	mov.u32 %r1, 1;
	st.global.u32 [%rd1], %r1;
	ret;
}
`

// cudaError names a code of CUDA.
func cudaError(what string, code C.int) error {
	switch code {
	case 0:
		return nil
	case -1:
		return fmt.Errorf("%s: libcuda.so.1 is not there", what)
	}
	return fmt.Errorf("%s: CUDA error %d", what, code)
}

// with makes a context on the GPU of an index, which has to be kept on one
// thread, and calls f.
func with(index int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cudaError("open the GPU", C.cuda_open(C.int(index))); err != nil {
		return err
	}
	defer C.cuda_close()
	return f()
}

func run(kernel string, blocks, threads int, a, b uint64) error {
	ptx, name := C.CString(kernels), C.CString(kernel)
	defer C.free(unsafe.Pointer(ptx))
	defer C.free(unsafe.Pointer(name))
	return cudaError("run the kernel "+kernel, C.cuda_run(ptx, name, C.uint(blocks), C.uint(threads), C.uint64_t(a), C.uint64_t(b)))
}

// Busy keeps the tensor cores of a GPU busy for d, with memory bytes allocated.
func Busy(index int, d time.Duration, memory int64) error {
	return with(index, func() error {
		var out C.uint64_t
		if err := cudaError("allocate memory", C.cuda_alloc(C.uint64_t(max(memory, 1<<20)), &out)); err != nil {
			return err
		}
		return run("busy", 264, 256, uint64(d.Nanoseconds()), uint64(out))
	})
}

// Allocate takes memory of a GPU and gives it back.
func Allocate(index int, bytes int64) error {
	return with(index, func() error {
		var at C.uint64_t
		return cudaError(fmt.Sprintf("allocate %d MiB", bytes>>20), C.cuda_alloc(C.uint64_t(bytes), &at))
	})
}

// Fault writes where no memory is. The error is CUDA's, and the driver reports
// Xid 31; no other process on the GPU is affected.
func Fault(index int) error {
	return with(index, func() error { return run("fault", 1, 1, 16, 0) })
}
