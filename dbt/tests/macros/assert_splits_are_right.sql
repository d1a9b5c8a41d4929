-- md5 by Python's hashlib. 75 % of 2, 3 and 4 questions is 1.5, 2.25 and 3; halves are rounded up.
select 'split_order' as macro
where {{ split_order('7', "'Q42-P19'") }} != 'ed0fa7a12b93c17f14f0c12e7799e2b5'
union all
select 'n_training' as macro
where [{{ n_training('2') }}, {{ n_training('3') }}, {{ n_training('4') }}, {{ n_training('1') }}] != [2, 2, 3, 1]
