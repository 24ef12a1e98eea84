local health = {status = "Progressing", message = "The operator has not seen it yet"}
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "The report APIs are given back before it is gone"
  return health
end
if obj.status == nil or obj.status.conditions == nil then
  return health
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  health.message = "The operator has not seen the last change yet"
  return health
end
local found = {}
for _, condition in ipairs(obj.status.conditions) do
  found[condition.type] = condition
end
if found.Stalled ~= nil and found.Stalled.status == "True" then
  health.status = "Degraded"
  health.message = found.Stalled.message
  return health
end
if found.Reconciling ~= nil and found.Reconciling.status == "True" then
  health.message = found.Reconciling.message
  return health
end
if found.Ready ~= nil then
  health.message = found.Ready.message
  if found.Ready.status == "True" then
    health.status = "Healthy"
  end
end
return health
