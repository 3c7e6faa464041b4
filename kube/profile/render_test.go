package profile_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	core "berth.dev/berth/core/profile"
	"berth.dev/berth/kube/profile"
)

// override makes a profile of a base section and one override, both YAML.
func override(base, text string) string {
	return base + "\nprofileList:\n- display_name: P\n  kubespawner_override: " + text + "\n"
}

// Every setting that cannot be had is refused by its key and with the way out.
func TestRenderRefuses(t *testing.T) {
	tests := []struct {
		name, base, override string
		key, says            string
	}{
		{"another namespace", "", `{namespace: team}`, "kubespawner_override.namespace", "stays in its user's namespace"},
		{"a GPU that is only guaranteed", "", `{extra_resource_guarantees: {nvidia.com/gpu: 1}}`, "kubespawner_override.extra_resource_guarantees.nvidia.com/gpu", "write it under extra_resource_limits"},
		{"unequal GPUs", "", `{extra_resource_guarantees: {nvidia.com/gpu: 1}, extra_resource_limits: {nvidia.com/gpu: 2}}`, "kubespawner_override.extra_resource_guarantees.nvidia.com/gpu", "must be equal"},
		{"half a GPU", "", `{extra_resource_limits: {nvidia.com/gpu: 0.5}}`, "kubespawner_override.extra_resource_limits.nvidia.com/gpu", "nvidia.com/gpu-memory"},
		{"a size in Gi", "memory: {limit: 4Gi}", `{}`, "singleuser.memory.limit", "such as 4G, which is 4294967296 bytes"},
		{"CPUs in quotes", "", `{cpu_limit: "2"}`, "kubespawner_override.cpu_limit", "without quotes"},
		{"fewer than no CPUs", "", `{cpu_limit: -1}`, "kubespawner_override.cpu_limit", "not a number of CPUs"},
		{"a guarantee above its limit", "", `{mem_guarantee: 4G, mem_limit: 2G}`, "kubespawner_override.mem_guarantee", "lower one or raise the other"},
		{"the chart's guarantee above a limit", "", `{mem_limit: 512M}`, "singleuser.memory.guarantee", "above the limit"},
		{"a tag that is a number", "image: {name: base, tag: 2024.10}", `{}`, "singleuser.image.tag", "in quotes"},
		{"no image", "image: {name: null}", `{}`, "image", "there is no image"},
		{"a policy that is none", "", `{image_pull_policy: Sometimes}`, "kubespawner_override.image_pull_policy", "Always, IfNotPresent or Never"},
		{"an unknown field of a volume", "", `{volumes: [{name: v, emptyDirs: {}}]}`, "kubespawner_override.volumes", `unknown field "emptyDirs"`},
		{"a mount of no volume", "", `{volumes: [], volume_mounts: [{name: v, mountPath: /v}]}`, "kubespawner_override.volume_mounts", `there is no volume "v"`},
		{"tolerations that are a text", "", `{tolerations: all}`, "kubespawner_override.tolerations", "must be a list or a mapping"},
		{"a place of nobody", "", `{extra_labels: {a: "{userid}"}}`, "kubespawner_override.extra_labels", "nothing is known as {userid}"},
		{"a place that computes", "", `{environment: {A: "{username.upper}"}}`, "kubespawner_override.environment.A", "not a plain name"},
		{"a variable that is a list", "", `{environment: {A: [1]}}`, "kubespawner_override.environment.A", "a list"},
		{"a user who is half one", "", `{uid: 1000.5}`, "kubespawner_override.uid", "whole number"},
		{"a label that cannot be", "", `{extra_labels: {a: "x y"}}`, "kubespawner_override.extra_labels", "cannot be the value of a label"},
		{"two labels that cannot be", "", `{extra_labels: {b: "x y", a: "y z"}}`, "kubespawner_override.extra_labels", `a: "y z" cannot be`},
		{"two keys of a security context in snake_case", "", `{container_security_context: {run_as_user: 0, run_as_group: 0}}`, "kubespawner_override.container_security_context", "run_as_group: "},
		{"snake_case in a security context", "", `{container_security_context: {run_as_user: 0}}`, "kubespawner_override.container_security_context", "runAsUser"},
		{"an unknown field of the pod", "", `{extra_pod_config: {hostNetworks: true}}`, "kubespawner_override.extra_pod_config", "unknown field"},
		{"an extra_pod_config that is a list", "", `{extra_pod_config: [a]}`, "kubespawner_override.extra_pod_config", "mapping"},
		{"storage of no kind", "storage: {type: tape}", `{}`, "singleuser.storage.type", "dynamic, static or none"},
		{"storage of one claim without a name", "storage: {type: static}", `{}`, "singleuser.storage.static.pvcName", "name of a claim"},
		{"a size of the home that is none", "storage: {capacity: ten}", `{}`, "singleuser.storage.capacity", "such as 10Gi"},
		{"a variable over a text", "extraEnv: {A: x}", `{environment: {A: {valueFrom: {}}}}`, "kubespawner_override.environment", "JupyterHub fails here too"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := override(tt.base, tt.override)
			if strings.HasPrefix(tt.base, "image") {
				text = "singleuser:\n" + indent(text)
			} else {
				text = "singleuser:\n  image: {name: base, tag: v1}\n" + indent(text)
			}
			f, err := profile.Read("v.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			_, _, _, err = profile.Render(&objects(t, f)[0], profile.Choices{User: "ada"})
			var key *core.KeyError
			if !errors.As(err, &key) || key.Key != tt.key || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %s: ... %s", err, tt.key, tt.says)
			}
			f.Check()
			if len(f.Profiles) != 0 {
				t.Errorf("Check kept a profile that does not render; findings %v", f.Findings)
			}
		})
	}
}

// rows: JH-40 JH-41
func TestRenderForWhom(t *testing.T) {
	list := objects(t, read(t, "hub.yaml"))
	gpu := &list[1]
	tests := []struct {
		name string
		c    profile.Choices
		says string
	}{
		{"nobody", profile.Choices{}, "whose notebook is it?"},
		{"who is in no group", profile.Choices{User: "eve"}, "profile gpu is for members of Example:GPU-Users; eve is in no group"},
		{"who is in another", profile.Choices{User: "eve", Groups: []string{"example:staff"}}, "eve is in example:staff"},
		{"a choice for others", profile.Choices{User: "ada", Groups: []string{"example:gpu-users"}, Options: map[string]string{"image": "old"}}, "image=old: choose pytorch (some choices are only for members of groups)"},
		{"an image without a tag", profile.Choices{User: "ada", Groups: []string{"EXAMPLE:gpu-users"}, Unlisted: map[string]string{"image": "mine"}}, "<image>:<tag>"},
		{"a name that is too long", profile.Choices{User: "ada", Groups: []string{"example:gpu-users"}, Name: strings.Repeat("a", 53)}, "53 letters: at most 52"},
		{"a name that is none", profile.Choices{User: "ada", Groups: []string{"example:gpu-users"}, Name: "A_b"}, `notebook name "A_b"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, _, err := profile.Render(gpu, tt.c)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one with %q", err, tt.says)
			}
		})
	}
	if _, err := profile.Pick(list[1:], "", nil); err == nil || !strings.Contains(err.Error(), "none of the 1 profiles is for members of no group") {
		t.Errorf("Pick of what is for others: %v", err)
	}
	if p, err := profile.Pick(list, "", nil); err != nil || p.Name != "small" {
		t.Errorf("Pick of the default gives %v, %v; want small", p, err)
	}
}

// rows: JH-20 JH-21 JH-23
func TestRenderMergesOverTheBase(t *testing.T) {
	p := one(t, override(`memory: {limit: 8G, guarantee: 2G}
extraEnv: {KEPT: "1", GONE: "2", CHANGED: "3"}
nodeSelector: {kept: "1", gone: "2"}
extraTolerations: [{key: base, operator: Exists}]`, `
    mem_limit: null
    environment: {GONE: null, CHANGED: "4", NEW: "5"}
    node_selector: {gone: null, new: "6"}
    tolerations: [{key: own, operator: Exists}]`))
	nb, _, _, err := profile.Render(p, profile.Choices{User: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	pod := podOf(t, nb)
	main := pod.Containers[0]
	if _, limited := main.Resources.Limits[corev1.ResourceMemory]; limited {
		t.Error("mem_limit: null left a limit")
	}
	env := map[string]string{}
	for _, e := range main.Env {
		env[e.Name] = e.Value
	}
	if _, gone := env["GONE"]; gone || env["KEPT"] != "1" || env["CHANGED"] != "4" || env["NEW"] != "5" {
		t.Errorf("environment %v", env)
	}
	if s := pod.NodeSelector; len(s) != 2 || s["kept"] != "1" || s["new"] != "6" {
		t.Errorf("node selector %v", s)
	}
	if len(pod.Tolerations) != 1 || pod.Tolerations[0].Key != "own" {
		t.Errorf("tolerations are a list and replaced as one, not %v", pod.Tolerations)
	}
}

func TestRenderStorage(t *testing.T) {
	tests := []struct {
		name, base, override string
		claim, mount, dir    string // "" is none
		warns                string
	}{
		{name: "a claim of the user's own", claim: "claim-ada 10Gi", mount: "/home/jovyan"},
		{
			name: "of another size, class and place", base: "storage: {capacity: 20Gi, homeMountPath: /home/rstudio, dynamic: {storageClass: fast, pvcNameTemplate: \"home-{username}\"}}",
			claim: "home-ada 20Gi fast", mount: "/home/rstudio", dir: "/home/rstudio",
		},
		{name: "one claim for all", base: "storage: {type: static, static: {pvcName: nfs}}", mount: "/home/jovyan ada"},
		{name: "none", base: "storage: {type: none}"},
		{
			name: "volumes that replace it", override: "{volumes: [{name: x, emptyDir: {}}], volume_mounts: [{name: x, mountPath: /x}]}", mount: "/x",
			warns: "what its user writes is lost",
		},
		{name: "volumes that are added", override: "{volumes: {x: {name: x, emptyDir: {}}}}", claim: "claim-ada 10Gi", mount: "/home/jovyan"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.override
			if text == "" {
				text = "{}"
			}
			nb, claim, warnings, err := profile.Render(one(t, override(tt.base, text)), profile.Choices{User: "ada"})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if claim != nil {
				got = claim.Name + " " + claim.Spec.Resources.Requests.Storage().String()
				if claim.Spec.StorageClassName != nil {
					got += " " + *claim.Spec.StorageClassName
				}
				if len(claim.OwnerReferences) > 0 {
					t.Error("the claim is owned, so it would go with the notebook")
				}
			}
			main := podOf(t, nb).Containers[0]
			mount := ""
			for _, m := range main.VolumeMounts[:min(1, len(main.VolumeMounts))] {
				mount = strings.TrimSpace(m.MountPath + " " + m.SubPath)
			}
			warned := ""
			for _, w := range warnings {
				warned += w.Text
			}
			if got != tt.claim || mount != tt.mount || main.WorkingDir != tt.dir || !strings.Contains(warned, tt.warns) || tt.warns == "" && warned != "" {
				t.Errorf("claim %q, mount %q, working folder %q, warnings %q; want %q, %q, %q, %q", got, mount, main.WorkingDir, warned, tt.claim, tt.mount, tt.dir, tt.warns)
			}
		})
	}
}

func TestRenderCommand(t *testing.T) {
	tests := []struct{ name, override, args string }{
		{"JupyterHub's own server is replaced", "{}", "jupyter lab --no-browser --ServerApp.ip=0.0.0.0 --ServerApp.port=8888 --ServerApp.base_url=$(NB_PREFIX) --ServerApp.password="},
		{"so it is by its path, with what follows", "{cmd: [/opt/bin/jupyterhub-singleuser, --debug], port: 9999, default_url: \"/u/{username}\", notebook_dir: /work}", "jupyter lab --no-browser --ServerApp.ip=0.0.0.0 --ServerApp.port=9999 --ServerApp.base_url=$(NB_PREFIX) --ServerApp.password= --ServerApp.default_url=/u/ada --ServerApp.root_dir=/work --debug"},
		{"another stays", "{cmd: rserver, args: [--x]}", "rserver --x"},
		{"null is the image's own", "{cmd: null, args: [--x]}", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nb, _, _, err := profile.Render(one(t, override("", tt.override)), profile.Choices{User: "ada"})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(podOf(t, nb).Containers[0].Args, " "); got != tt.args {
				t.Errorf("args %s, want %s", got, tt.args)
			}
		})
	}
}

// rows: JH-38
func TestRenderNamesTheUser(t *testing.T) {
	p := one(t, override("", `{extra_annotations: {all: "{username} {escaped_username} {user_server} {unescaped_username} {pod_name} {pvc_name} {hubnamespace} {{x}}", dash: "a-{servername}", kept: "b-"}}`))
	tests := []struct{ user, label, all string }{
		{"ada", "ada", "ada ada ada ada jupyter-ada-0 claim-ada user {x}"},
		{"Ada.L", "Ada.L", "ada-l---b724b05d -41da-2e-4c ada-l---b724b05d Ada.L jupyter-ada-l---b724b05d-0 claim-ada-l---b724b05d user {x}"},
		{"7of9", "7of9", "x-7of9---7f5ddf87 7of9 x-7of9---7f5ddf87 7of9 jupyter-x-7of9---7f5ddf87-0 claim-x-7of9---7f5ddf87 user {x}"},
	}
	for _, tt := range tests {
		t.Run(tt.user, func(t *testing.T) {
			nb, _, _, err := profile.Render(p, profile.Choices{User: tt.user, Namespace: "default"})
			if err != nil {
				t.Fatal(err)
			}
			a := nb.Annotations
			if nb.Labels[api.AnnotationHubUser] != tt.label || a[api.AnnotationHubUser] != tt.user || a["all"] != tt.all || a["dash"] != "a" || a["kept"] != "b-" {
				t.Errorf("labels %v, annotations %v; want %s and %s", nb.Labels, a, tt.label, tt.all)
			}
		})
	}
}

func TestEveryProfileOfATestFileRendersAlikeTwice(t *testing.T) {
	for _, tt := range renders {
		p, err := profile.Pick(objects(t, read(t, tt.file)), tt.slug, tt.choices.Groups)
		if err != nil {
			t.Fatal(err)
		}
		before := string(p.Spec.Override) + string(p.Spec.Base)
		var first string
		for range 5 {
			nb, claim, _, err := profile.Render(p, tt.choices)
			if err != nil {
				t.Fatal(err)
			}
			if text := asYAML(t, nb, claim); first == "" {
				first = text
			} else if text != first {
				t.Fatalf("%s: two renders differ", tt.golden)
			}
		}
		if after := string(p.Spec.Override) + string(p.Spec.Base); after != before {
			t.Errorf("%s: Render changed the profile", tt.golden)
		}
	}
}

func TestImageNames(t *testing.T) {
	for image, want := range map[string]string{
		"a:latest": "tag latest", "a:master": "tag master", "a:main": "tag main", "a": "no tag", "reg:5000/a": "no tag", "a:<tag>": "not the name",
		"reg:5000/a:1": "", "a:latest-2024": "", "a:latest@sha256:0": "",
	} {
		if got := profile.MovingTag(image); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("MovingTag(%q) = %q, want %q", image, got, want)
		}
	}
	for image, cpu := range map[string]bool{
		"jupyter/tensorflow-notebook:2023-11-19": true, "quay.io/jupyter/pytorch-notebook:2024": true,
		"quay.io/jupyter/pytorch-notebook:cuda12-2024": false, "pangeo/pytorch-notebook:1": false, "nvcr.io/nvidia/pytorch:24.01-py3": false,
		"docker.io/jupyter/scipy-notebook@sha256:0": true,
	} {
		if got := profile.CPUImage(image) != ""; got != cpu {
			t.Errorf("CPUImage(%q) = %t, want %t", image, got, cpu)
		}
	}
}
