package config

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/strictyaml"
)

// defaults is a document that says what holds where the file is silent.
func defaults() document {
	var d document
	d.Flags.FailOnInitError = true
	d.Flags.DriverRoot = "/"
	d.Flags.UseNodeFeatureAPI = true
	d.Flags.Plugin.CDIAnnotationPrefix = "cdi.k8s.io/"
	d.Flags.Plugin.CTKPath = "/usr/bin/nvidia-ctk"
	d.Flags.Plugin.ContainerDriverRoot = "/driver-root"
	d.Flags.GFD.MachineTypeFile = DefaultMachineTypeFile
	return d
}

// flags checks flags, without flags.plugin.
func (p *parser) flags() *strictyaml.Error {
	f := p.doc.Flags
	if err := p.oneOf("flags.migStrategy", "unknown MIG strategy", f.MIGStrategy, "none", "single", "mixed"); err != nil {
		return err
	}
	if err := p.oneOf("flags.deviceDiscoveryStrategy", "invalid --device-discovery-strategy option",
		f.DeviceDiscoveryStrategy, "auto", "nvml", "tegra", "vfio"); err != nil {
		return err
	}
	o := &p.out
	o.MIGStrategy = gpu.MIGStrategy(f.MIGStrategy)
	o.FailOnInitError, o.GDRCopy, o.GDS, o.MOFED = f.FailOnInitError, f.GDRCopy, f.GDS, f.MOFED
	o.MPSRoot = DefaultMPSRoot
	if f.MPSRoot != nil {
		o.MPSRoot = *f.MPSRoot
	}
	o.DriverRoot = or(f.DriverRoot, "/")
	o.DevRoot = or(f.DevRoot, o.DriverRoot)
	o.Discovery = or(f.DeviceDiscoveryStrategy, "auto")
	o.GFD = GFD{
		Oneshot: f.GFD.Oneshot, NoTimestamp: f.GFD.NoTimestamp, OutputFile: f.GFD.OutputFile,
		MachineTypeFile: f.GFD.MachineTypeFile, UseNodeFeatureAPI: f.UseNodeFeatureAPI,
	}
	b := p.doc.beside
	o.KubeletSocket = or(b.KubeletSocket, DefaultKubeletSocket)
	o.CDIFeatureFlags, o.CDIDisableHooks, o.Health = b.CDIFeatureFlags, b.CDIDisableHooks, b.Health
	var err *strictyaml.Error
	o.GFD.SleepInterval, err = p.sleep(strictyaml.Follow(&f.GFD.SleepInterval))
	return err
}

// sleep reads an interval: "60s", "infinite", which is 0, or nanoseconds.
func (p *parser) sleep(n *yaml.Node) (time.Duration, *strictyaml.Error) {
	const path = "flags.gfd.sleepInterval"
	if n == nil || n.IsZero() || strictyaml.IsNull(n) {
		return time.Minute, nil
	}
	if n.Kind == yaml.ScalarNode {
		if n.Value == "infinite" {
			return 0, nil
		}
		d, err := time.ParseDuration(n.Value)
		if t := n.ShortTag(); err != nil && (t == "!!int" || t == "!!float") {
			var nanoseconds float64
			err = n.Decode(&nanoseconds)
			d = time.Duration(nanoseconds)
		}
		if err == nil && d > 0 {
			return d, nil
		}
	}
	return 0, p.fail(path, "invalid duration: "+strictyaml.Found(n), `use a duration such as 60s, or infinite`)
}

// plugin checks flags.plugin.
func (p *parser) plugin() *strictyaml.Error {
	f := p.doc.Flags.Plugin
	strategies, err := p.listStrategies(strictyaml.Follow(&f.DeviceListStrategy))
	if err != nil {
		return err
	}
	if err := p.oneOf("flags.plugin.deviceIDStrategy", "invalid --device-id-strategy option", f.DeviceIDStrategy, "uuid", "index"); err != nil {
		return err
	}
	p.out.Packed = f.AllocationPolicy == "packed"
	p.out.Plugin = Plugin{
		PassDeviceSpecs: f.PassDeviceSpecs, DeviceListStrategy: strategies, DeviceIDStrategy: or(f.DeviceIDStrategy, "uuid"),
		CDIAnnotationPrefix: f.CDIAnnotationPrefix, CTKPath: f.CTKPath, ContainerDriverRoot: f.ContainerDriverRoot,
	}
	return p.oneOf("flags.plugin.sharedDevicesAllocationPolicy", "invalid --shared-devices-allocation-policy option",
		f.AllocationPolicy, "distributed", "packed")
}

// listStrategies reads one strategy or a list; none is envvar.
func (p *parser) listStrategies(n *yaml.Node) ([]string, *strictyaml.Error) {
	const path = "flags.plugin.deviceListStrategy"
	var given, out []string
	switch {
	case n == nil || n.IsZero() || strictyaml.IsNull(n):
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		if given = []string{n.Value}; strings.Contains(n.Value, ",") { // as the flag and its variable are written
			given = list(n.Value)
			p.warn(path, "a list in one string; it is read as a list", "write a list: ["+strings.Join(given, ", ")+"]")
		}
	default:
		if n.Kind != yaml.SequenceNode || strictyaml.NewDecoder(p.file).Decode(n, path, &given) != nil {
			return nil, p.fail(path, "invalid deviceListStrategy: "+strictyaml.Found(n), "use envvar, or a list such as [envvar, cdi-cri]")
		}
	}
	for _, s := range given {
		if s == "" {
			return nil, p.fail(path, `invalid --device-list-strategy option: invalid strategy: ""`, "use envvar")
		}
		if err := p.oneOf(path, "invalid --device-list-strategy option: invalid strategy", s,
			ListEnvvar, ListVolumeMounts, ListCDIAnnotations, ListCDICRI); err != nil {
			return nil, err
		}
		if strings.HasPrefix(s, "cdi-") && p.doc.Flags.DeviceDiscoveryStrategy == "tegra" {
			return nil, p.fail(path, "CDI --device-list-strategy options are only supported on NVML-based systems", "use envvar or volume-mounts")
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		out = []string{ListEnvvar}
	}
	return out, nil
}

// or returns value, or the default where it is "".
func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
