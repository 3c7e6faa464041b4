/* What the stand-in knows: its file, the faults in it, and the MIG table. */
#include "fake.h"

struct state S;
static struct state next; /* being read: others look at S meanwhile */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat last;

void note(const char *format, ...) {
	const char *path = getenv("NVML_CALLS");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (!f) return;
	va_list args;
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fclose(f);
}

/* number gives the integer after " key=" in line, or otherwise. */
static int number(const char *line, const char *key, int otherwise) {
	char want[40];
	snprintf(want, sizeof want, " %s=", key);
	const char *at = strstr(line, want);
	return at ? atoi(at + strlen(want)) : otherwise;
}

/* text copies the word after " key=" with blanks for underscores. */
static void text(const char *line, const char *key, char *out, size_t size) {
	char want[40];
	snprintf(want, sizeof want, " %s=", key);
	const char *at = strstr(line, want);
	size_t n = 0;
	if (at)
		for (at += strlen(want); *at && *at != ' ' && *at != '\n' && n + 1 < size; at++) out[n++] = *at == '_' ? ' ' : *at;
	out[n] = 0;
}

static void read_gpu(const char *l) {
	struct gpu *g = &next.gpu[next.gpus];
	g->kind = KIND_GPU;
	g->index = next.gpus++;
	text(l, "uuid", g->uuid, sizeof g->uuid);
	text(l, "name", g->name, sizeof g->name);
	text(l, "bus", g->bus, sizeof g->bus);
	text(l, "cluster", g->cluster, sizeof g->cluster);
#define KEY(k, otherwise) g->k = number(l, #k, otherwise)
	KEY(minor, (int)g->index); KEY(memory, 143771); KEY(used, 0); KEY(reserved, 600); KEY(major, 9); KEY(cc, 0);
	KEY(mig, 0); KEY(pending, g->mig); KEY(reset, 0); KEY(lost, 0); KEY(display, 0); KEY(gpm, 1);
	KEY(temp, 30); KEY(memtemp, 40); KEY(power, 75000); KEY(limit, 700000); KEY(util, 0); KEY(memutil, 0);
	KEY(sm, 1980); KEY(mem, 3201); KEY(energy, 1000); KEY(replays, 0); KEY(enc, 0); KEY(dec, 0);
	KEY(corrected, 0); KEY(uncorrected, 0); KEY(remapfail, 0); KEY(remappending, 0); KEY(reasons, 0);
	KEY(nvlink, 0); KEY(clique, 0); KEY(pid, 0); KEY(pidmem, 0); KEY(mode, 0);
	KEY(tensor, 0); KEY(dram, 0); KEY(tx, 0); KEY(rx, 0); KEY(fan, 0); KEY(ecc, 0); KEY(heat, 0); KEY(smactive, 0); KEY(pciekb, 0);
#undef KEY
}

static void read_mig(const char *l) {
	struct gpu *g = &next.gpu[number(l, "gpu", 0)];
	for (int i = 0; i < INSTANCES; i++) {
		struct instance *m = &g->gi[i];
		if (m->used) continue;
		*m = (struct instance){KIND_MIG, 1, 1, number(l, "gi", 1), number(l, "profile", 19), number(l, "start", 0), "", &S.gpu[g->index]};
		text(l, "uuid", m->uuid, sizeof m->uuid);
		return;
	}
}

static void read_line(const char *l) {
	char word[16] = "", call[64] = "";
	int a = 0, b = 0, n = 0;
	sscanf(l, "%15s %63s %d", word, call, &n);
	if (!strcmp(word, "driver")) {
		snprintf(next.driver, sizeof next.driver, "%s", call);
		next.cuda = n;
	} else if (!strcmp(word, "needs")) {
		snprintf(next.needs, sizeof next.needs, "%s", call);
	} else if (!strcmp(word, "gpu") && next.gpus < GPUS) {
		read_gpu(l);
	} else if (!strcmp(word, "mig")) {
		read_mig(l);
	} else if (!strcmp(word, "link") && sscanf(l, "link %d %d %d", &a, &b, &n) == 3) {
		next.links[a][b] = next.links[b][a] = n;
	} else if (!strcmp(word, "event") && next.events < EVENTS) {
		next.event[next.events].gpu = number(l, "gpu", -1);
		next.event[next.events].xid = number(l, "xid", 0);
		next.event[next.events].gi = number(l, "gi", -1);
		next.event[next.events++].ci = number(l, "ci", -1);
	} else if (next.faults < FAULTS && (!strcmp(word, "hang") || !strcmp(word, "crash") || !strcmp(word, "fail"))) {
		snprintf(next.fault[next.faults].what, sizeof next.fault[0].what, "%s", word);
		snprintf(next.fault[next.faults].call, sizeof next.fault[0].call, "%s", call);
		next.fault[next.faults++].code = n;
	}
}

/* denied reports why the device node that the file names cannot be opened. One without a
 * driver behind it will do: what is asked is whether this process may. */
static nvmlReturn_t denied(void) {
	int fd = *S.needs ? open(S.needs, O_RDWR | O_CLOEXEC) : -1;
	if (fd >= 0) close(fd);
	if (!*S.needs || fd >= 0 || errno == ENXIO) return NVML_SUCCESS;
	return errno == ENOENT ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_ERROR_NO_PERMISSION;
}

nvmlReturn_t enter(const char *call) {
	static int still; /* read once, and the file does not change */
	static char loaded[sizeof S.driver]; /* the version of this library */
	struct stat now;
	const char *path = getenv("NVML_STATE");
	if (still) return NVML_SUCCESS;
	if (!path || stat(path, &now)) return NVML_ERROR_DRIVER_NOT_LOADED;
	pthread_mutex_lock(&lock);
	if (now.st_ino != last.st_ino || now.st_mtim.tv_nsec != last.st_mtim.tv_nsec || now.st_mtim.tv_sec != last.st_mtim.tv_sec) {
		char line[1024];
		FILE *f = fopen(path, "r");
		memset(&next, 0, sizeof next);
		while (f && fgets(line, sizeof line, f)) read_line(line);
		if (f) fclose(f);
		S = next;
		last = now;
		if (!*loaded) memcpy(loaded, S.driver, sizeof loaded);
	}
	int mismatch = *S.driver && strcmp(loaded, S.driver);
	char what[16] = "";
	int code = 0;
	for (int i = 0; i < S.faults; i++)
		if (!strcmp(S.fault[i].call, call)) {
			memcpy(what, S.fault[i].what, sizeof what);
			code = S.fault[i].code;
		}
	nvmlReturn_t no = denied();
	still = getenv("NVML_STILL") != NULL;
	pthread_mutex_unlock(&lock);
	if (!strcmp(what, "crash")) abort();
	while (!strcmp(what, "hang")) pause();
	if (no != NVML_SUCCESS) return no;
	return mismatch ? NVML_ERROR_LIB_RM_VERSION_MISMATCH : code;
}

/* The table of an H200 of 141 GB. */
static const struct profile profiles[] = {
	{NVML_GPU_INSTANCE_PROFILE_1_SLICE, 19, 1, 7, 16, 1, 1, 1, 0, 16384, 1, 0x7f, "MIG 1g.18gb"},
	{NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, 20, 1, 1, 16, 1, 1, 1, 1, 16384, 1, 0x7f, "MIG 1g.18gb+me"},
	{NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2, 15, 1, 4, 26, 1, 1, 1, 0, 33024, 2, 0x55, "MIG 1g.35gb"},
	{NVML_GPU_INSTANCE_PROFILE_2_SLICE, 14, 2, 3, 32, 2, 2, 2, 0, 33024, 2, 0x15, "MIG 2g.35gb"},
	{NVML_GPU_INSTANCE_PROFILE_3_SLICE, 9, 3, 2, 60, 3, 3, 3, 0, 71168, 4, 0x11, "MIG 3g.71gb"},
	{NVML_GPU_INSTANCE_PROFILE_4_SLICE, 5, 4, 1, 64, 4, 4, 4, 0, 71168, 4, 0x01, "MIG 4g.71gb"},
	{NVML_GPU_INSTANCE_PROFILE_7_SLICE, 0, 7, 1, 132, 8, 7, 7, 1, 143360, 8, 0x01, "MIG 7g.141gb"},
};
enum { PROFILES = sizeof profiles / sizeof *profiles };

nvmlReturn_t say(char *out, unsigned size, const char *text) {
	if (strlen(text) + 1 > size) return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return NVML_SUCCESS;
}

const struct profile *profile_of(unsigned id) {
	for (int i = 0; i < PROFILES; i++)
		if (profiles[i].id == id) return &profiles[i];
	return NULL;
}
const struct profile *profile_of_shape(unsigned which) {
	for (int i = 0; i < PROFILES; i++)
		if (profiles[i].which == which) return &profiles[i];
	return NULL;
}
