-- Runs the health check of Argo CD's ConfigMap: lua5.1 health-test.lua SCRIPT
-- Each case is an object as the kube-apiserver has it, and the answer that kstatus gives.
local script = arg[1]

local function object(generation, observed, conditions)
  return {
    metadata = {name = "policy-reports", generation = generation},
    status = {observedGeneration = observed, conditions = conditions},
  }
end

local function condition(kind, status, message)
  return {type = kind, status = status, reason = "Any", message = message}
end

local deleted = object(1, 1, {condition("Ready", "True", "served")})
deleted.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"

local cases = {
  {"nothing written yet", {metadata = {generation = 1}}, "Progressing"},
  {"no condition yet", {metadata = {generation = 1}, status = {observedGeneration = 1}}, "Progressing"},
  {"served", object(2, 2, {condition("Ready", "True", "served")}), "Healthy", "served"},
  {"changed since", object(3, 2, {condition("Ready", "True", "served")}), "Progressing"},
  {"stalled before the change", object(3, 2, {condition("Stalled", "True", "refused")}), "Progressing"},
  {"not served yet", object(2, 2, {condition("Ready", "False", "no server")}), "Progressing", "no server"},
  {"unknown", object(2, 2, {condition("Ready", "Unknown", "no answer")}), "Progressing", "no answer"},
  {
    "at work while served",
    object(2, 2, {condition("Ready", "True", "served"), condition("Reconciling", "True", "12/100")}),
    "Progressing", "12/100",
  },
  {
    "work is over",
    object(2, 2, {condition("Reconciling", "False", "done"), condition("Ready", "True", "served")}),
    "Healthy", "served",
  },
  {
    "somebody has to act",
    object(2, 2, {
      condition("Ready", "False", "refused"), condition("Reconciling", "True", "12/100"),
      condition("Stalled", "True", "spec.apis[0] is refused"),
    }),
    "Degraded", "spec.apis[0] is refused",
  },
  {"going", deleted, "Progressing"},
}

local failed = 0
for _, case in ipairs(cases) do
  local name, given, status, message = case[1], case[2], case[3], case[4]
  local check = assert(loadfile(script))
  -- What Argo CD gives a check, and nothing more: no files, no programs.
  setfenv(check, {obj = given, ipairs = ipairs, pairs = pairs, string = string, table = table})
  local health = check()
  local right = health.status == status and (message == nil or health.message == message)
  if not right or type(health.message) ~= "string" then
    failed = failed + 1
    print(("%s: %s (%s), expected %s"):format(name, tostring(health.status), tostring(health.message), status))
  end
end
print(("%d cases, %d failed"):format(#cases, failed))
os.exit(failed == 0 and 0 or 1)
